// Generates the list of event kinds from the core. EventSource needs a listener for each kind.
import { readFileSync, writeFileSync } from "node:fs";

const source = readFileSync(new URL("../../crates/core/src/event.rs", import.meta.url), "utf8");
const list = source.slice(source.indexOf("\nkinds! {"));
const kinds = [...list.slice(0, list.indexOf("\n}")).matchAll(/^\s+\w+ = "([a-z_]+)",$/gm)].map(
  found => found[1],
);
if (kinds.length < 30) throw new Error("no list of event kinds found in crates/core/src/event.rs");
const lines = kinds.map(kind => `  ${JSON.stringify(kind)},`).join("\n");
writeFileSync(
  new URL("../src/api/kinds.gen.ts", import.meta.url),
  `export const EVENT_KINDS = [\n${lines}\n] as const;\n\nexport type EventKind = (typeof EVENT_KINDS)[number];\n`,
);
