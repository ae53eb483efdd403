import { expect, test } from "vitest";
import type { NotificationRule } from "@/api/types";
import { listTargets, toRule, toValues } from "./ruleValues";

test("a rule that is opened and saved stays the same", () => {
  const rules: NotificationRule[] = [
    { channel: "inbox", about: "mine", kinds: ["*"] },
    { channel: "chat", about: "mine", kinds: ["*"], digestMinutes: 5 },
    { channel: "chat", destination: "deploys", about: "all", kinds: ["*"], digestMinutes: 0 },
    {
      channel: "email",
      about: "all",
      kinds: ["deployment_failed", "session_overridden"],
      pipeline: "shop*",
      environment: "production",
      digestMinutes: 45,
      quietHours: { hours: "22:00-07:00", timeZone: "Europe/Vienna" },
    },
  ];
  for (const rule of rules) expect(toRule(toValues(rule))).toEqual(rule);
});

test("times of emails are not saved with a rule for the inbox", () => {
  const values = { ...toValues(null), target: "inbox", isQuiet: true };
  expect(toRule(values)).toEqual({ channel: "inbox", about: "mine", kinds: ["*"] });
});

const TO_PEOPLE = [
  { value: "inbox", label: "Inbox" },
  { value: "email", label: "Email" },
  { value: "chat", label: "Slack message" },
];
const TO_DEPLOYS = { value: "chat:deploys", label: "deploys" };

test("only rules of teams and the organization can send to a chat destination", () => {
  expect(listTargets("own", ["deploys"], "email")).toEqual(TO_PEOPLE);
  expect(listTargets("organization", ["deploys"], "chat:deploys")).toEqual([TO_DEPLOYS]);
  expect(listTargets("team", ["deploys"], "email")).toEqual([
    { group: "To the members of the team", items: TO_PEOPLE },
    { group: "To a chat destination", items: [TO_DEPLOYS] },
  ]);
});

test("a deleted chat destination of a rule is listed, so that editing another field keeps it", () => {
  expect(listTargets("organization", ["deploys"], "chat:old")).toEqual([
    TO_DEPLOYS,
    { value: "chat:old", label: "old (deleted)" },
  ]);
});
