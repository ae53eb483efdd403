// Writes .br and .gz files for every file in dist that gets smaller; the server does not compress at run time.
import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const COMPRESSIBLE = /\.(js|css|html|svg|json)$/;
const dist = new URL("../dist", import.meta.url).pathname;

async function compress(path) {
  const plain = await readFile(path);
  const [brotli, gzipped] = await Promise.all([
    promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
    promisify(gzip)(plain, { level: 9 }),
  ]);
  if (brotli.length < plain.length) await writeFile(`${path}.br`, brotli);
  if (gzipped.length < plain.length) await writeFile(`${path}.gz`, gzipped);
}

// Node's thread pool compresses several files in parallel.
const paths = readdirSync(dist, { recursive: true }).map(entry => join(dist, String(entry)));
await Promise.all(paths.filter(path => COMPRESSIBLE.test(path) && !path.includes("/.vite/")).map(compress));
