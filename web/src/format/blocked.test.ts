import { expect, test } from "vitest";
import type { Approval, BlockedBy } from "@/api/types";
import {
  findBlockingApproval,
  findBlockingDeployment,
  findBlockingStep,
  formatApproval,
  formatBlocked,
  formatMoment,
} from "./blocked";

const NOW = Date.parse("2026-11-15T14:00:00Z");

function pendingApproval(required: number, given: number, from: string[]) {
  return { stage: "production", required, given, rule: { approvals: 1, from } } as unknown as Approval;
}

test.each([
  [pendingApproval(2, 1, ["admin"]), "needs 1 more of 2 approvals from admins"],
  [pendingApproval(1, 0, []), "needs an approval"],
  [pendingApproval(3, 0, ["admin", "ada@acme.test"]), "needs 3 approvals from admins or ada@acme.test"],
])("formatApproval names the missing approvals and who can give them %#", (approval, words) => {
  expect(formatApproval(approval)).toBe(words);
});

test.each([
  ["2026-11-15T15:30:00Z", "Europe/Vienna", "16:30 Vienna"],
  ["2026-11-16T08:00:00Z", "Europe/Vienna", "Mon 16 Nov, 09:00 Vienna"],
  ["2026-11-15T23:30:00Z", "America/New_York", "18:30 New York"],
])("formatMoment of %s in %s is %s", (at, zone, words) => {
  expect(formatMoment(at, NOW, zone).replace("Mon, ", "Mon ")).toBe(words);
});

function blocked(kind: BlockedBy["kind"], detail: string, clearedBy?: string): BlockedBy {
  return { kind, detail, clearedBy: clearedBy ?? null, clearsAt: null };
}

test.each([
  [blocked("pipeline_stopped", "the pipeline is stopped"), "new deployments of this pipeline are paused"],
  [blocked("earlier_stage", 'another deployment is in stage "staging"'), "another deployment is in staging"],
  [
    blocked("window", 'the window of stage "production" is shut'),
    "the deployment window of production does not open again",
  ],
  [
    blocked(
      "promotion_paused",
      'promotion into stage "production" is paused since ada rolled it back at 2026-11-15T09:09:36.852Z ("5xx")',
    ),
    'promotion into production is paused since ada rolled it back ("5xx")',
  ],
  [blocked("no_runner", "this server runs no steps"), "this server runs no steps"],
])("formatBlocked describes the reason %#", (reason, words) => {
  expect(formatBlocked(reason, NOW)).toBe(words);
});

test("formatBlocked with a known approval names the missing approvals", () => {
  const reason = blocked("approval", 'stage "production" needs 2 approvals; 1 so far', "admin, on apr_01");
  expect(formatBlocked(reason, NOW, pendingApproval(2, 1, ["admin"]))).toBe(
    "production needs 1 more of 2 approvals from admins",
  );
  expect(findBlockingApproval(reason)).toBe("apr_01");
});

test("IDs of blocking deployments, steps and approvals are read from clearedBy", () => {
  expect(findBlockingDeployment(blocked("earlier_stage", "", "the end of dep_01m in that stage"))).toBe(
    "dep_01m",
  );
  expect(findBlockingStep(blocked("unknown_outcome", "", "a user who resolves stp_01m"))).toBe("stp_01m");
  expect(findBlockingDeployment(blocked("window", "", "time"))).toBeNull();
});
