import { expect, test } from "vitest";
import type { Event } from "@/api/types";
import { formatOwnerMessage, formatSessionMessage } from "./sessionToasts";

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
