import { expect, test } from "vitest";
import { EVENT_KINDS, type EventKind } from "@/api/kinds.gen";
import type { Event } from "@/api/types";
import { sentence } from "./event";

const NAMES = new Map([["pl_1", "Checkout"]]);

function event(kind: EventKind, subjects: Event["subjects"], data: Record<string, unknown> = {}): Event {
  const actor = { type: "user" as const, id: "usr_1", name: "ada", tokenId: null };
  const hashes = { hash: "", previousHash: "" };
  const rest = { id: "evt_1", sequence: 1, occurredAt: "", requestId: null, organizationId: "", ...hashes };
  return { ...rest, kind, actor, subjects, data: data as Event["data"] };
}

const PIPELINE = { type: "pipeline", id: "pl_1", name: null };
const QA = { type: "environment", id: "env_1", name: "qa-1" };

test.each([
  [
    event("session_claimed", [QA, PIPELINE], { context: "load test" }),
    "ada claimed qa-1 of Checkout: “load test”",
  ],
  [
    event("session_overridden", [QA, PIPELINE], { holder: "grace", reason: "hotfix" }),
    "ada took qa-1 of Checkout over from grace: “hotfix”",
  ],
  [event("stage_started", [PIPELINE], { stage: "staging" }), "Stage started: Checkout → staging"],
  [
    event("step_failed", [PIPELINE, { type: "step", id: "stp_1", name: "deploy" }], { stage: "staging" }),
    "Step deploy failed: Checkout → staging",
  ],
  [
    event("deployment_succeeded", [PIPELINE], { number: 4, commitId: "v2" }),
    "Deployment succeeded: Checkout (#4, v2)",
  ],
  [event("token_created", [{ type: "token", id: "tok_1", name: "laptop" }]), "ada created the token laptop"],
  [
    event("events_removed", [{ type: "organization", id: "org_1", name: null }], { from: 1, through: 129 }),
    "Events up to no. 129 were removed, because they were old",
  ],
  [event("login_succeeded", [{ type: "user", id: "usr_1", name: "ada" }]), "ada logged in"],
])("an event reads as a sentence", (found, text) => {
  expect(sentence(found, NAMES)).toBe(text);
});

test("no kind is shown with underscores", () => {
  expect(
    EVENT_KINDS.map(kind => sentence(event(kind, []), NAMES)).filter(text => text.includes("_")),
  ).toEqual([]);
});
