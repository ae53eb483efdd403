// The server under test: a demo server with the pipeline `shop`, and a second account.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { Berth, type Ticket } from "berth-sdk";

const ORG = "/api/v1/organizations/{orgId}";
const ENVIRONMENT = `${ORG}/pipelines/{pipelineId}/ephemeral-environments/{envName}` as const;

/** Ada, whose token is in BERTH_TOKEN. */
export const ada = new Berth();
export const orgId = await ada.organization();

/** Creates the pipeline of the tests. */
export async function definePipeline(): Promise<void> {
  const definition = await readFile(process.env["BERTH_TEST_DEFINITION"] ?? "", "utf8");
  const path = { orgId, pipelineId: "shop" };
  const { error } = await ada.api.PUT(`${ORG}/pipelines/{pipelineId}/definition`, { params: { path }, body: { definition } });
  assert.equal(error, undefined);
}

/** Returns a client with a token of a new service account. */
export async function createAccount(name: string): Promise<Berth> {
  const path = { orgId };
  const member = await ada.api.POST(`${ORG}/members`, {
    params: { path },
    body: { email: `${name}@acme.test`, kind: "service", role: "deployer" },
  });
  assert.ok(member.data, JSON.stringify(member.error));
  const token = await ada.api.POST(`${ORG}/api-tokens`, {
    params: { path },
    body: { name, ownerId: member.data.data.id },
  });
  assert.ok(token.data?.data.token, JSON.stringify(token.error));
  return new Berth(process.env["BERTH_SERVER"], token.data.data.token);
}

export async function readEnvironment(envName: string) {
  const path = { orgId, pipelineId: "shop", envName };
  const { data, error } = await ada.api.GET(ENVIRONMENT, { params: { path } });
  assert.ok(data, JSON.stringify(error));
  return data.data;
}

export async function listQueue(envName: string): Promise<Ticket[]> {
  const path = { orgId, pipelineId: "shop", envName };
  const { data, error } = await ada.api.GET(`${ENVIRONMENT}/queue`, { params: { path } });
  assert.ok(data, JSON.stringify(error));
  return data.data;
}

/** Number of sessions that the environment has had, including the current one. */
export async function countSessions(envName: string): Promise<number> {
  const path = { orgId, pipelineId: "shop", envName };
  const { data, error } = await ada.api.GET(`${ENVIRONMENT}/history`, { params: { path } });
  assert.ok(data, JSON.stringify(error));
  return data.data.length;
}

export async function takeOver(berth: Berth, envName: string, reason: string): Promise<string> {
  const path = { orgId, pipelineId: "shop", envName };
  const { data, error } = await berth.api.POST(`${ENVIRONMENT}/force-claim`, { params: { path }, body: { reason } });
  assert.ok(data && "sessionId" in data.data && data.data.sessionId, JSON.stringify(error));
  return data.data.sessionId;
}

export async function release(envName: string, sessionId: string): Promise<void> {
  const path = { orgId, pipelineId: "shop", envName, sessionId };
  const { error } = await ada.api.DELETE(`${ENVIRONMENT}/sessions/{sessionId}`, { params: { path } });
  assert.equal(error, undefined);
}

/** Starts a program of this directory, and waits for its first line of output. */
export async function startProgram(file: string, ...args: string[]): Promise<[ChildProcess, string]> {
  const child = spawn(process.execPath, [new URL(file, import.meta.url).pathname, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) return [child, line];
  throw new Error(`${file} printed nothing`);
}
