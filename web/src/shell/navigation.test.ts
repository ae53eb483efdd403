import { expect, test } from "vitest";
import type { Access } from "@/data/permissions";
import { NAV_ITEMS, SETTINGS_TABS, visiblePages } from "./navigation";

function labels(access: Access) {
  return [...visiblePages(access, NAV_ITEMS), ...visiblePages(access, SETTINGS_TABS)].map(each => each.label);
}

test("member without grants sees only the organization", () => {
  expect(labels({ role: "member", grants: [] })).toEqual([
    "Home",
    "Inbox",
    "Organization Settings",
    "General",
    "API Tokens",
    "Members",
    "Teams",
  ]);
});

test("tester on environments sees pages of environments, but none that need the whole organization", () => {
  const access: Access = { role: "member", grants: [{ role: "tester", scope: "environment:shop/qa-*" }] };
  expect(labels(access)).toEqual(
    expect.arrayContaining(["Environments", "Pipelines", "Approvals", "Audit log"]),
  );
  for (const hidden of ["Insights", "Secrets", "Runners", "Webhooks", "Analysis"])
    expect(labels(access)).not.toContain(hidden);
});

test("viewer sees every page", () => {
  expect(labels({ role: "viewer", grants: [] })).toHaveLength(NAV_ITEMS.length + SETTINGS_TABS.length);
});
