import { expect, test } from "vitest";
import type { Event } from "@/api/types";
import { concerns } from "./told";

function taken(by: string, from: string): Event {
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

test("the loser of a take-over is told who and why; nobody else is", () => {
  expect(concerns(taken("usr_ada", "usr_grace"), "usr_grace")).toBe("ada took qa-1 over from you: “hotfix”.");
  expect(concerns(taken("usr_ada", "usr_grace"), "usr_ada")).toBeNull();
  expect(concerns(taken("usr_grace", "usr_grace"), "usr_grace")).toBeNull();
});
