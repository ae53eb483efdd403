import { expect, test } from "vitest";
import type { NotificationRule } from "@/api/types";
import { formatLead, formatNoRules, listRules, type RuleSet, toSavedRules } from "./scopeRules";

const INBOX: NotificationRule = { channel: "inbox" };
const TO_CHAT: NotificationRule = { channel: "chat", destination: "deploys" };
const DEFAULTS: RuleSet = { isDefault: true, rules: [INBOX, { channel: "email" }], updatedAt: null };

function setRules(...rules: NotificationRule[]): RuleSet {
  return { isDefault: false, rules, updatedAt: "2026-11-18T14:00:00Z" };
}

test("the defaults are listed as a user's own rules, not as those of a team", () => {
  expect(listRules("own", DEFAULTS)).toEqual(DEFAULTS.rules);
  expect(listRules("team", DEFAULTS)).toEqual([]);
  expect(listRules("team", setRules(INBOX))).toEqual([INBOX]);
});

test("removing the last rule turns off a user's own notifications, but not those of a team", () => {
  expect(toSavedRules("own", [])).toEqual([]);
  expect(toSavedRules("team", [])).toBeNull();
  expect(toSavedRules("organization", [])).toBeNull();
  expect(toSavedRules("team", [TO_CHAT])).toEqual([TO_CHAT]);
});

test("a team says whether its members get the default notifications", () => {
  expect(formatNoRules("team", DEFAULTS)).toContain("default notifications");
  expect(formatNoRules("team", setRules())).toContain("are off");
  expect(formatLead("team", setRules(TO_CHAT), "Acme")).toContain("default notifications");
  expect(formatLead("team", setRules(TO_CHAT, INBOX), "Acme")).not.toContain("default notifications");
});
