/** Texts about roles, scopes and grants. */
import type { PermissionSource, Role } from "@/api/types";
import { type AccessScope, parseScope, ROLES, roleIncludes } from "@/data/permissions";

/** What each role is for, in one line. */
export const ROLE_SUMMARIES: Record<Role, string> = {
  member: "belongs to the organization; everything else comes from grants",
  viewer: "can view everything except secret values",
  tester: "can claim, deploy and release in environments",
  approver: "can view everything and decide approvals",
  deployer: "can claim, take over, deploy and approve",
  admin: "can manage pipelines, secrets and members",
  owner: "full access",
};

/** Consequence of assigning each role, also for the member's API tokens. */
export const ROLE_CONSEQUENCES: Record<Role, string> = {
  member:
    "They and their API tokens can view only the organization and its members, plus what their grants allow.",
  viewer: "They and their API tokens can view everything except secret values, and change nothing.",
  tester: "They and their API tokens can claim, deploy and release in environments, but not take over.",
  approver: "They and their API tokens can view everything except secret values, and decide approvals.",
  deployer: "They and their API tokens can claim environments, deploy and approve.",
  admin: "They and their API tokens can manage pipelines, secrets and members, and bypass gates.",
  owner: "They and their API tokens get full access and can change your role.",
};

function capitalizeRole(role: Role): string {
  return role.charAt(0).toUpperCase() + role.slice(1);
}

/** Options of a role picker: the roles that a member with the role `mine` can give. */
export function roleOptions(mine: Role): { value: Role; label: string }[] {
  return ROLES.filter(role => roleIncludes(mine, role)).map(role => ({
    value: role,
    label: `${capitalizeRole(role)}: ${ROLE_SUMMARIES[role]}`,
  }));
}

/** Roles that a grant can give. `member` contains nothing that a part of the organization has. */
export function grantRoleOptions(mine: Role): { value: Role; label: string }[] {
  return roleOptions(mine).filter(({ value }) => value !== "member" && value !== "owner");
}

type ScopeKind = AccessScope["kind"];

/** What a grant of the role allows, followed by the name of its scope. */
const ROLE_VERBS: Record<Role, Record<ScopeKind, string>> = {
  member: { org: "see the members of", pipeline: "see", environment: "see", stage: "see" },
  viewer: { org: "view", pipeline: "view", environment: "view", stage: "view" },
  tester: {
    org: "claim, deploy and release in all environments of",
    pipeline: "claim, deploy and release in environments of",
    environment: "claim, deploy and release in",
    stage: "view",
  },
  approver: {
    org: "view and approve deployments in",
    pipeline: "view and approve deployments of",
    environment: "view and approve deployments in",
    stage: "view and approve deployments to",
  },
  deployer: {
    org: "use environments, deploy, approve and pause pipelines in",
    pipeline: "use environments of, deploy, approve and pause",
    environment: "claim, take over, deploy and release in",
    stage: "deploy to, roll back and approve",
  },
  admin: {
    org: "manage pipelines, secrets, members and settings of",
    pipeline: "change, deploy, and manage the secrets of",
    environment: "claim, take over, deploy and release in",
    stage: "deploy to, approve and bypass gates of",
  },
  owner: { org: "do everything in", pipeline: "manage", environment: "manage", stage: "manage" },
};

/** Names the things that a pattern matches: “the stage production”, “stages that begin with prod-”, “all stages”. */
function formatPattern(pattern: string, noun: string): string {
  if (pattern === "*") return `all ${noun}s`;
  if (pattern.endsWith("*")) return `${noun}s that begin with ${pattern.slice(0, -1)}`;
  return `the ${noun} ${pattern}`;
}

/** Names a scope: “environments of shop that begin with qa-”. */
export function formatScopeName(text: string): string {
  const scope = parseScope(text);
  if (!scope) return text;
  if (scope.kind === "org") return "the whole organization";
  if (scope.kind === "pipeline") return formatPattern(scope.pipeline, "pipeline");
  const { kind, name, pipeline } = scope;
  const of = pipeline.endsWith("*") ? formatPattern(pipeline, "pipeline") : pipeline;
  if (name === "*") return `all ${kind}s of ${of}`;
  if (!name.endsWith("*")) return `the ${kind} ${name} of ${of}`;
  // The part about the name last, unless the pipeline has such a part as well.
  return of === pipeline
    ? `${kind}s of ${of} that begin with ${name.slice(0, -1)}`
    : `${formatPattern(name, kind)} of ${of}`;
}

/** Describes a grant in a sentence: “Grace can claim, deploy and release in environments of shop that begin with qa-”. */
export function formatGrantSentence(who: string, role: Role, scope: string): string | null {
  const parsed = parseScope(scope);
  return parsed && `${who} can ${ROLE_VERBS[role][parsed.kind]} ${formatScopeName(scope)}`;
}

/** Where a permission comes from: “role deployer on stage:shop@production, team Site reliability”. */
export function formatPermissionSource({ role, scope, grantId, team }: PermissionSource): string {
  if (grantId == null) return `role ${role} in the organization`;
  return `role ${role} on ${formatScopeName(scope)}${team == null ? "" : `, team ${team}`}`;
}

/** Joins names: “Ada”, “Ada or Grace”, “Ada, Grace or Linus”. */
export function formatAlternatives(names: string[]): string {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
