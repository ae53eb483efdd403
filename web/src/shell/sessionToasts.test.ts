import { expect, test } from "vitest";
import type { Event } from "@/api/types";
import { addStartedDeployment } from "@/data/startedDeployments";
import { formatFailure, formatOwnerMessage, formatSessionMessage } from "./sessionToasts";

function takeoverEvent(by: string, from: string): Event {
  return {
    id: "evt_1",
    sequence: 1,
    kind: "session_overridden",
    occurredAt: "",
    actor: { type: "user", id: by, name: "ada", tokenId: null },
    requestId: null,
    subjects: [{ type: "environment", id: "env_1", name: "qa-1" }],
    data: { holderId: from, reason: "hotfix" } as unknown as Event["data"],
    organizationId: "",
    hash: "",
    previousHash: "",
    summary: "",
  };
}

test("a takeover notifies only the former holder, with actor and reason", () => {
  expect(formatSessionMessage(takeoverEvent("usr_ada", "usr_grace"), "usr_grace")).toBe(
    "ada took over qa-1 from you: “hotfix”",
  );
  expect(formatSessionMessage(takeoverEvent("usr_ada", "usr_grace"), "usr_ada")).toBeNull();
  expect(formatSessionMessage(takeoverEvent("usr_grace", "usr_grace"), "usr_grace")).toBeNull();
});

const QUEUED: Event = {
  ...takeoverEvent("usr_ada", "usr_ada"),
  kind: "ticket_queued",
  occurredAt: "2026-11-18T12:00:00.000Z",
};

test("an announced takeover notifies the holder, with time and reason", () => {
  const announced: Event = {
    ...QUEUED,
    data: {
      holder: "ada",
      heldById: "usr_grace",
      takeover: "grace",
      takeoverAt: "2026-11-18T12:05:00.000Z",
      reason: "customer demo",
    } as unknown as Event["data"],
  };
  expect(formatSessionMessage(announced, "usr_grace")).toBe(
    "ada will take over qa-1 from you in 5 min: “customer demo”",
  );
  expect(formatSessionMessage(announced, "usr_linus")).toBeNull();
});

test("a waiting claim notifies the holder", () => {
  const queued = { ...QUEUED, data: { holder: "ada", heldById: "usr_grace" } as unknown as Event["data"] };
  expect(formatSessionMessage(queued, "usr_grace")).toBe("ada is waiting for qa-1, which you hold");
  expect(formatSessionMessage(queued, "usr_ada")).toBeNull();
});

test("a failed deployment notifies the user who started it in this tab", () => {
  const failed: Event = {
    ...QUEUED,
    kind: "deployment_failed",
    subjects: [{ type: "deployment", id: "dep_1", name: null }],
    summary: "Deployment in qa-1 of shop (feature/nope) failed: there is no commit feature/nope",
  };
  expect(formatFailure(failed)).toBeNull();
  addStartedDeployment("dep_1");
  expect(formatFailure(failed)).toBe(failed.summary);
});

test("a session released by another user notifies its holder", () => {
  const released: Event = { ...takeoverEvent("usr_ada", "usr_grace"), kind: "session_released" };
  expect(formatSessionMessage(released, "usr_grace")).toBe("ada released your session on qa-1");
  expect(
    formatSessionMessage({ ...released, actor: { ...released.actor, id: "usr_grace" } }, "usr_grace"),
  ).toBeNull();
});

test("a waiting claim notifies the owning team, except its author", () => {
  const queued: Event = {
    ...takeoverEvent("usr_ada", "usr_ada"),
    kind: "ticket_queued",
    data: { holder: "ada", owner: "team:qa" } as unknown as Event["data"],
  };
  expect(formatOwnerMessage(queued, "usr_grace", ["qa"])).toBe("ada is waiting for qa-1");
  expect(formatOwnerMessage(queued, "usr_grace", ["sre"])).toBeNull();
  expect(formatOwnerMessage(queued, "usr_ada", ["qa"])).toBeNull();
});
