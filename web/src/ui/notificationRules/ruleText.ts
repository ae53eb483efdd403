/** Notification rules as text. */
import type { NotificationRule } from "@/api/types";
import type { RuleScope } from "@/data/notificationRules";
import { capitalize } from "@/format/text";
import { formatEventKind } from "../events/eventKind";

type ScopeKind = RuleScope["kind"];

/** "email" as "Email". Messages to people in a chat are sent through Slack. */
export function formatChannel({ channel, destination }: Pick<NotificationRule, "channel" | "destination">) {
  if (destination) return destination;
  return channel === "chat" ? "Slack message" : capitalize(channel);
}

/** Whom the events of a rule with `about: mine` concern. */
export function formatConcerned(scope: ScopeKind, hasDestination: boolean): string {
  if (scope === "own") return "you";
  if (scope === "organization") return "a member";
  return hasDestination ? "a member of the team" : "the member";
}

/** The events of a rule with `about: all`. People get only those that they may see. */
export function formatAllEvents(scope: ScopeKind, hasDestination: boolean): string {
  if (hasDestination) return "All events";
  return `All events that ${scope === "own" ? "you" : "the member"} may see`;
}

/** The events of a rule: "Deployment failed, in pipeline shop, production". */
export function formatRuleEvents(rule: NotificationRule, scope: ScopeKind): string {
  const { about, kinds, pipeline, environment } = rule;
  const hasDestination = Boolean(rule.destination);
  const concerned = formatConcerned(scope, hasDestination);
  const isAll = about === "all";
  const isAny = !kinds || kinds.includes("*");
  const what = isAny
    ? isAll
      ? formatAllEvents(scope, hasDestination)
      : `Events that concern ${concerned}`
    : `${kinds.map(formatEventKind).join(", ")}${isAll ? "" : `, if ${kinds.length === 1 ? "it concerns" : "they concern"} ${concerned}`}`;
  const places = [pipeline && `pipeline ${pipeline}`, environment].filter(Boolean);
  return places.length > 0 ? `${what}, in ${places.join(", ")}` : what;
}

/** When the notifications of a rule are sent: "at most every 30 min, not 20:00–08:00 (Europe/Vienna)". */
export function formatRuleTimes({ digestMinutes, quietHours }: NotificationRule): string {
  const digest = digestMinutes ? [`at most every ${digestMinutes} min`] : [];
  const quiet = quietHours ? [`not ${quietHours.hours.replace("-", "–")} (${quietHours.timeZone})`] : [];
  return [...digest, ...quiet].join(", ");
}
