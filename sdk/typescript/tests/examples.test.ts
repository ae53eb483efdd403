// Runs the examples of README.md and docs/sdk.md, which were extracted into `example-N.ts`.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { before, test } from "node:test";
import { promisify } from "node:util";

import { definePipeline, readEnvironment } from "./support.js";

before(definePipeline);

test("examples_succeed_and_release_the_environment", async () => {
  const files = await readdir(new URL(".", import.meta.url));
  const examples = files.filter((name) => /^example-\d+\.js$/.test(name));
  assert.ok(examples.length > 0);
  for (const name of examples) {
    await promisify(execFile)(process.execPath, [new URL(name, import.meta.url).pathname]);
    assert.equal((await readEnvironment("qa-1")).lockStatus, "unlocked", name);
  }
});
