/** The rules that a scope has of its own, and what applies without them. */
import type { components } from "@/api/schema.gen";
import type { NotificationRule } from "@/api/types";
import type { RuleScope } from "@/data/notificationRules";

export type RuleSet = components["schemas"]["NotificationRules"];
type ScopeKind = RuleScope["kind"];

/** The rules to list. A team without rules has none: the defaults apply to its members, not to the team. */
export function listRules(scope: ScopeKind, { isDefault, rules }: RuleSet): NotificationRule[] {
  return scope === "team" && isDefault ? [] : rules;
}

/**
 * What to save as all rules. A person can turn everything off with an empty list. A team whose last rule is removed
 * returns to the defaults, because an empty list would turn off the notifications of its members.
 */
export function toSavedRules(scope: ScopeKind, rules: NotificationRule[]): NotificationRule[] | null {
  return scope !== "own" && rules.length === 0 ? null : rules;
}

const TEAM_LEAD = "For members without rules of their own, and for chat destinations";

/** The line below the heading. */
export function formatLead(scope: ScopeKind, { isDefault, rules }: RuleSet, orgName: string): string {
  switch (scope) {
    case "own":
      return isDefault
        ? `The defaults. Change them to choose what reaches you from ${orgName}, and how.`
        : `Your rules in ${orgName}. An event reaches you through every channel of the rules that match it.`;
    case "team":
      return rules.length > 0 && rules.every(each => each.destination)
        ? `${TEAM_LEAD}. These rules send only to chat destinations, so members get the default notifications.`
        : TEAM_LEAD;
    case "organization":
      return "What is sent to chat destinations";
  }
}

/** What happens without rules. */
export function formatNoRules(scope: ScopeKind, { isDefault }: RuleSet): string {
  switch (scope) {
    case "own":
      return "All notifications are off";
    case "team":
      return isDefault
        ? "This team has no rules. Its members get the default notifications: events that concern them, in the inbox and by email."
        : "All notifications of members without rules of their own are off";
    case "organization":
      return "The organization has no rules. Only rules of teams send to the chat destinations.";
  }
}
