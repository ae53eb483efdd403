import { expect, test } from "vitest";
import type { NotificationRule } from "@/api/types";
import type { RuleScope } from "@/data/notificationRules";
import { formatChannel, formatRuleEvents, formatRuleTimes } from "./ruleText";

const MANY: [NotificationRule, string, string][] = [
  [{ channel: "inbox" }, "Events that concern you", ""],
  [{ channel: "email", about: "all", kinds: ["*"] }, "All events that you may see", ""],
  [
    { channel: "email", about: "mine", kinds: ["session_overridden"], digestMinutes: 30 },
    "Environment taken over, if it concerns you",
    "at most every 30 min",
  ],
  [
    {
      channel: "email",
      about: "all",
      kinds: ["deployment_failed"],
      pipeline: "shop",
      environment: "production",
      digestMinutes: 0,
      quietHours: { hours: "20:00-08:00", timeZone: "Europe/Vienna" },
    },
    "Deployment failed, in pipeline shop, production",
    "not 20:00–08:00 (Europe/Vienna)",
  ],
];

test.each(MANY)("%o is a sentence", (rule, events, times) => {
  expect([formatRuleEvents(rule, "own"), formatRuleTimes(rule)]).toEqual([events, times]);
});

const TO_CHAT = { channel: "chat", destination: "deploys" } as const;
const OF_SCOPES: [RuleScope["kind"], NotificationRule, string, string][] = [
  ["own", { channel: "chat" }, "Slack message", "Events that concern you"],
  ["team", { channel: "chat" }, "Slack message", "Events that concern the member"],
  ["team", { channel: "email", about: "all" }, "Email", "All events that the member may see"],
  ["team", TO_CHAT, "deploys", "Events that concern a member of the team"],
  [
    "team",
    { ...TO_CHAT, kinds: ["deployment_failed"] },
    "deploys",
    "Deployment failed, if it concerns a member of the team",
  ],
  ["organization", TO_CHAT, "deploys", "Events that concern a member"],
  ["organization", { ...TO_CHAT, about: "all" }, "deploys", "All events"],
];

test.each(OF_SCOPES)("rule of %s %o says whom its events concern", (scope, rule, channel, events) => {
  expect([formatChannel(rule), formatRuleEvents(rule, scope)]).toEqual([channel, events]);
});
