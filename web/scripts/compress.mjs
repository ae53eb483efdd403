// Every file of dist that shrinks gets a .br and a .gz beside it, made once here and never at run time.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const COMPRESSIBLE = /\.(js|css|html|svg|json)$/;
const dist = new URL("../dist", import.meta.url).pathname;

for (const entry of readdirSync(dist, { recursive: true })) {
  const path = join(dist, String(entry));
  if (!COMPRESSIBLE.test(path) || path.includes("/.vite/")) continue;
  const plain = readFileSync(path);
  const brotli = brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  const gzip = gzipSync(plain, { level: 9 });
  if (brotli.length < plain.length) writeFileSync(`${path}.br`, brotli);
  if (gzip.length < plain.length) writeFileSync(`${path}.gz`, gzip);
}
