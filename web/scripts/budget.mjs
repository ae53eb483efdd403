// Checks the gzipped size of the JavaScript that a logged-in user loads for Home: the entry, the page, and their imports.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const INITIAL_JS_BYTES_MAX = 200 * 1024;
/** Heavy dependencies that must be lazy-loaded. */
const LAZY_ONLY = ["@xyflow", "dagre", "uplot", "@codemirror", "virtuoso"];

const dist = new URL("../dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));
const entry = Object.keys(manifest).find(key => manifest[key].isEntry);
const initial = new Set();
const walk = key => {
  if (initial.has(key)) return;
  initial.add(key);
  for (const next of manifest[key].imports ?? []) walk(next);
};
walk(entry);
walk("src/pages/home/HomePage.tsx");

const size = file => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length;
const total = [...initial].reduce((sum, key) => sum + size(manifest[key].file), 0);
const kib = bytes => `${(bytes / 1024).toFixed(1)} KiB`;
const heavy = [...initial].filter(key => LAZY_ONLY.some(part => key.includes(part)));
process.stdout.write(
  `initial JavaScript: ${kib(total)} gzip of ${kib(INITIAL_JS_BYTES_MAX)}, in ${initial.size} files\n`,
);
if (total > INITIAL_JS_BYTES_MAX || heavy.length > 0) {
  process.stderr.write(
    `initial JavaScript over budget or with heavy dependencies: ${heavy.join(", ") || kib(total)}\n`,
  );
  process.exit(1);
}
