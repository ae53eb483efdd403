// Tests of the installed package against a real server.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";

import {
  ApiError,
  type Berth,
  ConnectionFailed,
  DeploymentFailed,
  EnvironmentLocked,
  QueueEnded,
  SessionEnded,
  SessionOverridden,
  type Ticket,
  VERSION,
} from "berth-sdk";
import * as sdk from "berth-sdk";

import { startLossyProxy } from "./proxy.js";
import {
  ada,
  countSessions,
  createAccount,
  definePipeline,
  listQueue,
  readEnvironment,
  release,
  startProgram,
  takeOver,
} from "./support.js";

let ci: Berth;

before(async () => {
  await definePipeline();
  ci = await createAccount("sdk-ci");
});

test("session_deploys_reads_logs_and_releases", async () => {
  const progress: string[] = [];
  {
    await using session = await ada.session("shop/qa-1", { why: "checkout tests", contact: "grace", ttl: 60 });
    assert.equal(session.fence, (await readEnvironment("qa-1")).fence);
    assert.equal((await readEnvironment("qa-1")).lock?.context, "checkout tests");
    await session.deploy("v1");
    const followed = lines(session.logs({ follow: true }));
    const deployment = await session.wait({ onProgress: ({ status }) => progress.push(status) });
    assert.equal(deployment.status, "succeeded");
    const expected = ["deploying v1 to qa-1", "host 1 updated", "host 2 updated", "host 3 updated"];
    assert.deepEqual(await followed, expected);
    assert.deepEqual(await lines(session.logs({ step: "deploy" })), expected);
    assert.deepEqual(await lines(session.logs({ tail: 1 })), ["host 3 updated"]);
    const before = session.record.expiresAt ?? "";
    const { expiresAt } = await session.extend(600);
    assert.ok(expiresAt && expiresAt > before);
  }
  assert.equal(progress.at(-1), "succeeded");
  assert.equal((await readEnvironment("qa-1")).lockStatus, "unlocked");
});

test("claimed_commit_is_deployed_and_failure_is_thrown", async () => {
  const work = ada.withSession("shop/qa-1", { commit: "broken" }, (session) => session.wait());
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof DeploymentFailed, String(error));
    assert.equal(error.deployment.commitId, "broken");
    return true;
  });
  assert.equal((await readEnvironment("qa-1")).lockStatus, "unlocked");
});

test("locked_environment_is_reported_with_holder_reason_and_expiry", async () => {
  await using held = await ci.session("shop/qa-1", { why: "load test", contact: "grace", ttl: 600 });
  await assert.rejects(ada.session("shop/qa-1"), (error) => {
    assert.ok(error instanceof EnvironmentLocked, String(error));
    assert.equal(error.holder?.name, "sdk-ci");
    assert.equal(error.reason, "load test");
    assert.equal(error.contact, "grace");
    assert.equal(error.until?.toISOString(), held.record.expiresAt);
    assert.equal(error.isOwn, false);
    assert.equal(error.code, "environment_locked");
    return true;
  });
});

test("queued_claim_reports_progress_and_gets_the_environment", async () => {
  const holder = await ci.session("shop/qa-1");
  const waiting = deferred<Ticket>();
  const queued = ada.session("shop/qa-1", { queue: true, onQueue: waiting.resolve });
  const ticket = await waiting.promise;
  assert.equal(ticket.position, 1);
  await holder.release();
  await using session = await queued;
  assert.ok(session.fence > holder.fence);
});

test("queue_timeout_is_an_error", async () => {
  await using _held = await ci.session("shop/qa-1");
  await assert.rejects(ada.session("shop/qa-1", { queue: true, queueTimeout: 1 }), (error) => {
    assert.ok(error instanceof QueueEnded, String(error));
    assert.equal(error.ticket.status, "expired");
    return true;
  });
});

test("aborted_queue_wait_leaves_the_queue", async () => {
  await using _held = await ci.session("shop/qa-1");
  const stop = new AbortController();
  const options = { queue: true, signal: stop.signal, onQueue: () => stop.abort(new Error("enough")) };
  await assert.rejects(ada.session("shop/qa-1", options), { message: "enough" });
  assert.deepEqual(await listQueue("qa-1"), []);
});

test("takeover_aborts_the_body", async () => {
  let successor = "";
  const reasons: unknown[] = [];
  const work = ada.withSession("shop/qa-2", { commit: "slow" }, async (session) => {
    session.signal.addEventListener("abort", () => reasons.push(session.signal.reason));
    for await (const line of session.logs({ follow: true })) if (line === "waiting") break;
    successor = await takeOver(ci, "qa-2", "hotfix");
    await session.wait();
  });
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof SessionOverridden, String(error));
    assert.equal(error.by, "sdk-ci");
    assert.equal(error.reason, "hotfix");
    return true;
  });
  assert.ok(reasons[0] instanceof SessionOverridden);
  assert.equal((await readEnvironment("qa-2")).lock?.sessionId, successor);
  await release("qa-2", successor);
});

test("session_released_by_another_member_aborts_the_body", async () => {
  const work = ada.withSession("shop/qa-2", {}, async (session) => {
    await release("qa-2", session.id);
    await new Promise(() => {});
  });
  await assert.rejects(work, SessionEnded);
});

test("sigterm_releases_the_session", async () => {
  const [child, line] = await startProgram("hold.js", "shop/qa-3");
  assert.match(line, /^fence/);
  assert.equal((await readEnvironment("qa-3")).lockStatus, "locked");
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [null, "SIGTERM"]);
  assert.equal((await readEnvironment("qa-3")).lockStatus, "unlocked");
});

test("sigint_while_queued_leaves_the_queue", async () => {
  await using _held = await ci.session("shop/qa-3");
  const [child, line] = await startProgram("hold.js", "shop/qa-3");
  assert.equal(line, "position 1");
  child.kill("SIGINT");
  assert.deepEqual(await once(child, "exit"), [null, "SIGINT"]);
  assert.deepEqual(await listQueue("qa-3"), []);
});

test("lost_response_does_not_claim_twice", async () => {
  await using proxy = await startLossyProxy(process.env["BERTH_SERVER"] ?? "", true);
  const before = await countSessions("qa-3");
  const session = await new sdk.Berth(proxy.url).session("shop/qa-3");
  assert.equal((await readEnvironment("qa-3")).lock?.sessionId, session.id);
  await session.release();
  assert.equal(proxy.claims(), 2);
  assert.equal(await countSessions("qa-3"), before + 1);
});

test("lease_is_renewed_and_the_body_is_aborted_before_it_can_expire", async () => {
  await using proxy = await startLossyProxy(process.env["BERTH_SERVER"] ?? "", false);
  const berth = new sdk.Berth(proxy.url, undefined, { retryForMs: 200 });
  let renewed = "";
  const work = berth.withSession("shop/qa-4", { lease: 15 }, async (session) => {
    const first = session.record.leaseExpiresAt ?? "";
    do renewed = (await readEnvironment("qa-4")).lock?.leaseExpiresAt ?? "";
    while (renewed <= first && (await delay(100, true)));
    proxy.block();
    await new Promise(() => {});
  });
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof SessionEnded && /unreachable/.test(error.message), String(error));
    return true;
  });
  assert.ok(new Date().toISOString() < renewed, `aborted after ${renewed}`);
});

test("unreachable_server_and_unknown_environment_are_errors", async () => {
  const nowhere = new sdk.Berth("http://127.0.0.1:9", "berth_api_x", { retryForMs: 300, organization: "acme" });
  await assert.rejects(nowhere.session("shop/qa-1"), ConnectionFailed);
  await assert.rejects(ada.session("shop/qa-9"), (error) => error instanceof ApiError && error.code === "not_found");
  await assert.rejects(ada.session("qa-1"), /write pipeline\/environment/);
});

test("version_is_the_version_of_the_api", async () => {
  const url = new URL("/api/v1/openapi.json", process.env["BERTH_SERVER"]);
  const document = (await (await fetch(url)).json()) as { info: { version: string } };
  const manifest = new URL("package.json", new URL("../", import.meta.resolve("berth-sdk")));
  assert.equal(VERSION, document.info.version);
  assert.equal(JSON.parse(await readFile(manifest, "utf8")).version, VERSION);
});

async function lines(log: AsyncIterable<string>): Promise<string[]> {
  const read: string[] = [];
  for await (const line of log) read.push(line);
  return read;
}

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
