// Calls the steps as Berth does: one process per call, the answer in a file.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

function call(task) {
  const dir = mkdtempSync(join(tmpdir(), "call-"));
  try {
    const output = join(dir, "answer.json");
    const files = ["--output", output, "--log-dir", dir, "--execution-id", "call-1"];
    spawnSync("node", ["dist/main.js", "--input", JSON.stringify(task), ...files], { stdio: "inherit" });
    return JSON.parse(readFileSync(output, "utf8"));
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const execute = (type, params, more = {}) => call({ job: "EXECUTE", type, params, ...more });

test("metadata lists every step", () => {
  const { status, data } = call({ job: "SYNTHESIZE-METADATA" });
  assert.equal(status, "SUCCESS");
  assert.deepEqual(data.metadata.map((step) => step.stepType), ["GREET", "ROLLOUT", "WIPE"]);
});

test("greet says hello", () => {
  assert.deepEqual(execute("GREET", { who: "world" }), { status: "SUCCESS", data: { text: "Hello, world!" } });
});

test("rollout starts once and is polled until it is ready", () => {
  const params = { version: "v1", replicas: 2 };
  let answer = execute("ROLLOUT", params);
  assert.equal(answer.status, "TRIGGERED");
  answer = execute("ROLLOUT", params, { pollingState: answer.pollingState });
  assert.equal(answer.status, "POLL_AGAIN");
  answer = execute("ROLLOUT", params, { pollingState: answer.pollingState });
  assert.deepEqual(answer, { status: "SUCCESS", data: { id: "rollout-v1", ready: 2 } });
});

test("wipe asks for approval", () => {
  assert.equal(execute("WIPE", { table: "sessions" }).status, "APPROVAL_REQUIRED");
  const approvalContext = { approved: true, approverId: "ada@acme.test" };
  assert.equal(execute("WIPE", { table: "sessions" }, { approvalContext }).status, "SUCCESS");
});

test("unknown step type fails", () => {
  assert.equal(execute("greet", {}).errorCode, "STEP_NOT_FOUND");
});
