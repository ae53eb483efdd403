/** Texts for what a deployment waits for. */
import type { Approval, BlockedBy } from "@/api/types";

const ROLES: Record<string, string> = {
  viewer: "members",
  deployer: "deployers",
  admin: "admins",
  owner: "owners",
};

/** "needs 1 more of 2 approvals from admins or ada@acme.test". */
export function formatApproval({
  rule,
  required,
  given,
}: Pick<Approval, "rule" | "required" | "given">): string {
  const missing = Math.max(0, required - given);
  const count = missing === required ? `${required} approvals` : `${missing} more of ${required} approvals`;
  return `needs ${required === 1 ? "an approval" : count}${formatApprovers(rule.from)}`;
}

function formatApprovers(people: string[]): string {
  if (people.length === 0) return "";
  const names = people.map(each => ROLES[each] ?? each);
  return ` from ${names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`}`;
}

/** "09:00 Vienna", with the day unless it is today. */
export function formatMoment(at: string, now: number, zone = browserZone()): string {
  const then = new Date(at);
  const day = (date: Date) => date.toLocaleDateString("en-GB", { timeZone: zone });
  const time = then.toLocaleTimeString("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit" });
  const isToday = day(then) === day(new Date(now));
  const date = then.toLocaleDateString("en-GB", {
    timeZone: zone,
    weekday: "short",
    day: "numeric",
    month: "short",
  });
  return `${isToday ? "" : `${date}, `}${time} ${formatCity(zone)}`;
}

function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function formatCity(zone: string): string {
  return (zone.split("/").at(-1) ?? zone).replaceAll("_", " ");
}

/** Describes what blocks a deployment, without capital letter and full stop. `approval` is the one it waits for, if known. */
export function formatBlocked(blocked: BlockedBy, now: number, approval?: Approval): string {
  const stage = findQuotedText(blocked.detail);
  switch (blocked.kind) {
    case "approval":
      return approval ? `${approval.stage} ${formatApproval(approval)}` : blocked.detail;
    case "window":
      return blocked.clearsAt
        ? `the deployment window of ${stage ?? "the stage"} opens ${formatMoment(blocked.clearsAt, now)}`
        : `the deployment window of ${stage ?? "the stage"} does not open again`;
    case "soak":
      return `${stage ?? "a step"} is soaking`;
    case "unknown_outcome":
      return `the outcome of ${stage ?? "a step"} is unknown`;
    case "pipeline_stopped":
      return "new deployments of this pipeline are paused";
    case "earlier_stage":
      return `another deployment is in ${stage ?? "the stage"}`;
    case "environment_contested":
      return "the environment is being handed over";
    case "environment_resetting":
      return "the environment is being reset";
    case "promotion_paused":
      return blocked.detail.replace(/ at \d{4}-\S+Z/, "").replace(/stage "([^"]*)"/, "$1");
    default:
      return blocked.detail;
  }
}

/** ID of the deployment that blocks this one, if named. */
export function findBlockingDeployment(blocked: BlockedBy): string | null {
  return /\bdep_[0-9a-z]+/.exec(blocked.clearedBy ?? "")?.[0] ?? null;
}

/** ID of the step that a user has to resolve, if named. */
export function findBlockingStep(blocked: BlockedBy): string | null {
  return /\bstp_[0-9a-z]+/.exec(blocked.clearedBy ?? "")?.[0] ?? null;
}

/** ID of the approval that blocks, if named. */
export function findBlockingApproval(blocked: BlockedBy): string | null {
  return /\bapr_[0-9a-z]+/.exec(blocked.clearedBy ?? "")?.[0] ?? null;
}

function findQuotedText(text: string): string | null {
  return /"([^"]*)"/.exec(text)?.[1] ?? null;
}
