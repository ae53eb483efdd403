/** Fields of the dialog of a notification rule. */
import type { NotificationRule } from "@/api/types";
import type { RuleScope } from "@/data/notificationRules";
import { formatChannel } from "./ruleText";

export type RuleValues = {
  /** A channel, or `chat:` and the name of a chat destination. */
  target: string;
  about: "mine" | "all";
  isLimited: boolean;
  kinds: NonNullable<NotificationRule["kinds"]>;
  pipeline: string;
  environment: string;
  digest: string;
  isQuiet: boolean;
  quietFrom: string;
  quietTo: string;
  timeZone: string;
};

const DIGEST_MINUTES = 5;
const QUIET_HOURS = "20:00-08:00";
const CHANNELS: NotificationRule["channel"][] = ["inbox", "email", "chat"];
const DESTINATION_PREFIX = "chat:";

type RuleTarget = Pick<NotificationRule, "channel" | "destination">;

function joinTarget({ channel, destination }: RuleTarget): string {
  return destination ? `${DESTINATION_PREFIX}${destination}` : channel;
}

export function parseTarget(target: string): RuleTarget {
  if (target.startsWith(DESTINATION_PREFIX))
    return { channel: "chat", destination: target.slice(DESTINATION_PREFIX.length) };
  return { channel: CHANNELS.find(each => each === target) ?? "inbox", destination: undefined };
}

/**
 * The targets that a rule can have: channels to people, except for rules of the organization, and chat destinations,
 * except for a user's own rules. `destinations`: names of the organization's chat destinations. `current`: the target
 * of the rule that is edited, whose destination may have been deleted.
 */
export function listTargets(scope: RuleScope["kind"], destinations: string[], current: string) {
  const toPeople = CHANNELS.map(channel => ({ value: channel as string, label: formatChannel({ channel }) }));
  if (scope === "own") return toPeople;
  const { destination } = parseTarget(current);
  const deleted = destination && !destinations.includes(destination) ? [destination] : [];
  const toChats = [
    ...destinations.map(name => ({ value: joinTarget({ channel: "chat", destination: name }), label: name })),
    ...deleted.map(name => ({ value: current, label: `${name} (deleted)` })),
  ];
  if (scope === "organization") return toChats;
  const groups = [
    { group: "To the members of the team", items: toPeople },
    { group: "To a chat destination", items: toChats },
  ];
  return groups.filter(each => each.items.length > 0);
}

/** `rule`: null for a new one, which gets the target `first`. */
export function toValues(rule: NotificationRule | null, first = "email"): RuleValues {
  const kinds = rule?.kinds ?? ["*"];
  const isLimited = !kinds.includes("*");
  const [quietFrom = "", quietTo = ""] = (rule?.quietHours?.hours ?? QUIET_HOURS).split("-");
  return {
    target: rule ? joinTarget(rule) : first,
    about: rule?.about ?? "mine",
    isLimited,
    kinds: isLimited ? kinds : [],
    pipeline: rule?.pipeline ?? "",
    environment: rule?.environment ?? "",
    digest: String(rule ? (rule.digestMinutes ?? 0) : DIGEST_MINUTES),
    isQuiet: Boolean(rule?.quietHours),
    quietFrom,
    quietTo,
    timeZone: rule?.quietHours?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  };
}

export function toRule(values: RuleValues): NotificationRule {
  const target = parseTarget(values.target);
  const hasTimes = target.channel !== "inbox";
  return {
    ...target,
    about: values.about,
    kinds: values.isLimited ? values.kinds : ["*"],
    pipeline: values.pipeline.trim() || undefined,
    environment: values.environment.trim() || undefined,
    digestMinutes: hasTimes ? Number(values.digest) : undefined,
    quietHours:
      hasTimes && values.isQuiet
        ? { hours: `${values.quietFrom}-${values.quietTo}`, timeZone: values.timeZone.trim() }
        : undefined,
  };
}
