import { expect, test } from "vitest";
import { EVENT_KINDS } from "@/api/kinds.gen";
import { changesAccess, resourcesInvalidatedBy } from "./queryKeys";

/** Prefixes of kinds that invalidate only the audit log. */
const AUDIT_LOG_ONLY = [
  "cli",
  "forge",
  "id",
  "identity",
  "login",
  "logins",
  "password",
  "recovery",
  "access",
  "root",
];

test("every event kind invalidates at least one resource", () => {
  const silent = EVENT_KINDS.filter(kind => resourcesInvalidatedBy(kind).length === 0);
  expect(silent.filter(kind => !AUDIT_LOG_ONLY.some(start => kind.startsWith(`${start}_`)))).toEqual([]);
});

test("session_claimed invalidates Environments, Home and Pull requests", () => {
  expect(resourcesInvalidatedBy("session_claimed")).toEqual(["environments", "deployed", "pull-requests"]);
});

test("tickets invalidate Home, which shows the length of the queue and announced takeovers", () => {
  expect(resourcesInvalidatedBy("ticket_queued")).toContain("deployed");
});

test.each(["grant_created", "team_member_removed", "member_updated"])("%s can change access", kind => {
  expect(changesAccess(kind)).toBe(true);
});

test("session_claimed does not change access", () => {
  expect(changesAccess("session_claimed")).toBe(false);
});
