// Writes src/version.gen.ts and copies the license. The version of the package is the version of the API.

import { copyFileSync, readFileSync, writeFileSync } from "node:fs";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const api = read("../../../openapi.json").info.version;
const own = read("../package.json").version;
if (own !== api) {
  throw new Error(`package.json has version ${own}, but the API has ${api}: change package.json`);
}
writeFileSync(
  new URL("../src/version.gen.ts", import.meta.url),
  `export const VERSION = ${JSON.stringify(api)};\n`,
);
copyFileSync(new URL("../../../LICENSE", import.meta.url), new URL("../LICENSE", import.meta.url));
