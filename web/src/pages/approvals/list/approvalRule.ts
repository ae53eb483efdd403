/** Texts about who may decide an approval. */
import type { Approval } from "@/api/types";

/** "Needs 1 of 2 approvals from approver, ada@acme.test". */
export function formatNeeds({
  required,
  given,
  rule,
}: Pick<Approval, "required" | "given" | "rule">): string {
  const missing = Math.max(0, required - given);
  const count = required === 1 ? "1 approval" : `${missing} more of ${required} approvals`;
  const from = rule.from.length > 0 ? ` from ${rule.from.join(" or ")}` : "";
  return `Needs ${count}${from}`;
}

type User = { name: string; email?: string | null };

/** Why the user cannot approve; null if they can. */
export function formatWhyNot(
  { excluded, rule, votes, stage }: Pick<Approval, "excluded" | "rule" | "votes" | "stage">,
  me: User & { id: string },
  mayDecide: boolean,
): string | null {
  if (votes.some(each => each.actor.id === me.id && each.counts)) return "You have already voted";
  if (excluded.includes(me.name) || (me.email && excluded.includes(me.email)))
    return "You cannot approve: you wrote or started this change";
  if (!mayDecide) {
    const role = rule.from.find(each => !each.includes("@")) ?? "approver";
    return `You cannot approve: this needs the role ${role} on ${stage}`;
  }
  return null;
}
