/** Roles, permissions and scopes, used to hide actions that the server would reject. The server enforces them. */
import type { Organization, Pipeline, Role } from "@/api/types";

export const ROLES = ["member", "viewer", "tester", "approver", "deployer", "admin", "owner"] as const;

const ADMINS: readonly Role[] = ["admin", "owner"];
const DEPLOYERS: readonly Role[] = ["deployer", ...ADMINS];
const TESTERS: readonly Role[] = ["tester", ...DEPLOYERS];
const APPROVERS: readonly Role[] = ["approver", ...DEPLOYERS];
const VIEWERS: readonly Role[] = ["viewer", "tester", "approver", ...DEPLOYERS];
const MEMBERS: readonly Role[] = ROLES;

/** The smallest part of an organization on which a permission can be granted; `target` is an environment or a stage. */
type Level = "org" | "pipeline" | "environment" | "stage" | "target";
type PermissionRule = { level: Level; roles: readonly Role[] };

function rule(level: Level, roles: readonly Role[]): PermissionRule {
  return { level, roles };
}

/** The level and the roles of each permission; a test compares the roles with docs/permissions.md. */
export const PERMISSIONS = {
  "organization:read": rule("org", MEMBERS),
  "organization:write": rule("org", ADMINS),
  "members:read": rule("org", MEMBERS),
  "members:write": rule("org", ADMINS),
  "tokens:own": rule("org", MEMBERS),
  "notifications:own": rule("org", MEMBERS),
  "tokens:manage": rule("org", ADMINS),
  "pipelines:read": rule("pipeline", VIEWERS),
  "pipelines:write": rule("pipeline", ADMINS),
  "pipelines:operate": rule("pipeline", DEPLOYERS),
  "repositories:read": rule("org", VIEWERS),
  "repositories:write": rule("org", ADMINS),
  "environments:read": rule("environment", VIEWERS),
  "environments:claim": rule("environment", TESTERS),
  "environments:force_claim": rule("environment", DEPLOYERS),
  "environments:release_others": rule("environment", DEPLOYERS),
  "drain:override": rule("environment", ADMINS),
  "deployments:read": rule("target", VIEWERS),
  "deployments:operate": rule("target", TESTERS),
  "stages:deploy": rule("stage", DEPLOYERS),
  "gates:bypass": rule("stage", ADMINS),
  "approvals:read": rule("target", VIEWERS),
  "approvals:decide": rule("target", APPROVERS),
  "secrets:read": rule("pipeline", VIEWERS),
  "secrets:write": rule("pipeline", ADMINS),
  "webhooks:read": rule("org", VIEWERS),
  "webhooks:write": rule("org", ADMINS),
  "registries:read": rule("org", VIEWERS),
  "registries:write": rule("org", ADMINS),
  "runners:read": rule("org", VIEWERS),
  "runners:write": rule("org", ADMINS),
  "analysis:read": rule("target", VIEWERS),
  "analysis:source": rule("target", DEPLOYERS),
  "analysis:run": rule("target", DEPLOYERS),
  "analysis:settings": rule("org", ADMINS),
  "events:read": rule("target", VIEWERS),
} as const satisfies Record<string, PermissionRule>;

export type Permission = keyof typeof PERMISSIONS;

/** A resource, or a part of the organization if its names are patterns. `name` is an environment or a stage. */
export type AccessScope =
  | { kind: "org" }
  | { kind: "pipeline"; pipeline: string }
  | { kind: "environment" | "stage"; pipeline: string; name: string };

/** A scope whose names are not patterns. */
export type AccessTarget = AccessScope;

export const ORGANIZATION: AccessTarget = { kind: "org" };

/** The pipeline with this slug; the organization while the slug is unknown. */
export function pipelineTarget(pipeline: string | undefined): AccessTarget {
  return pipeline === undefined ? ORGANIZATION : { kind: "pipeline", pipeline };
}

export function environmentTarget(pipeline: string | undefined, name: string): AccessTarget {
  return pipeline === undefined ? ORGANIZATION : { kind: "environment", pipeline, name };
}

export function stageTarget(pipeline: string | undefined, name: string): AccessTarget {
  return pipeline === undefined ? ORGANIZATION : { kind: "stage", pipeline, name };
}

const NAME = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const PATTERN = `(?:${NAME}|(?:${NAME}-*)?\\*)`;
const SCOPE = new RegExp(
  `^(?:org|pipeline:(${PATTERN})|environment:(${PATTERN})/(${PATTERN})|stage:(${PATTERN})@(${PATTERN}))$`,
);

/** Parses `org`, `pipeline:shop-*`, `environment:shop/qa-*` or `stage:shop@production`. */
export function parseScope(text: string): AccessScope | null {
  const found = SCOPE.exec(text);
  if (!found) return null;
  const [, pipeline, ofEnvironment, environment, ofStage, stage] = found;
  if (pipeline !== undefined) return { kind: "pipeline", pipeline };
  if (ofEnvironment !== undefined && environment !== undefined)
    return { kind: "environment", pipeline: ofEnvironment, name: environment };
  if (ofStage !== undefined && stage !== undefined) return { kind: "stage", pipeline: ofStage, name: stage };
  return ORGANIZATION;
}

export function formatScope(scope: AccessScope): string {
  switch (scope.kind) {
    case "org":
      return "org";
    case "pipeline":
      return `pipeline:${scope.pipeline}`;
    case "environment":
      return `environment:${scope.pipeline}/${scope.name}`;
    case "stage":
      return `stage:${scope.pipeline}@${scope.name}`;
  }
}

/** A pattern is a name, or the beginning of a name followed by `*`. */
function matchesName(pattern: string, name: string): boolean {
  if (!pattern.endsWith("*")) return name === pattern;
  return name.startsWith(pattern.slice(0, -1)) && !/[/@]/.test(name);
}

function containsTarget(scope: AccessScope, target: AccessTarget): boolean {
  if (scope.kind === "org") return true;
  if (target.kind === "org" || !matchesName(scope.pipeline, target.pipeline)) return false;
  if (scope.kind === "pipeline") return true;
  return scope.kind === target.kind && "name" in target && matchesName(scope.name, target.name);
}

/** Whether there can be a resource in the scope on which the permission applies. */
function canCover(scope: AccessScope, permission: Permission): boolean {
  const { level } = PERMISSIONS[permission];
  if (scope.kind === "org") return true;
  if (level === "org") return false;
  if (scope.kind === "pipeline" || permission === "pipelines:read") return true;
  return level === scope.kind || level === "target";
}

/** A grant on environments or stages also makes the name and state of their pipeline readable. */
function covers(scope: AccessScope, permission: Permission, target: AccessTarget): boolean {
  if (permission === "pipelines:read" && target.kind === "pipeline")
    return scope.kind === "org" || matchesName(scope.pipeline, target.pipeline);
  return canCover(scope, permission) && containsTarget(scope, target);
}

/** The caller's role in the organization, and roles on parts of it. */
export type Access = Pick<Organization, "role" | "grants">;

export function roleHasPermission(role: Role, permission: Permission): boolean {
  const roles: readonly Role[] = PERMISSIONS[permission].roles;
  return roles.includes(role);
}

function hasPermission(access: Access, permission: Permission, isCovered: (scope: AccessScope) => boolean) {
  if (roleHasPermission(access.role, permission)) return true;
  return access.grants.some(grant => {
    const scope = roleHasPermission(grant.role, permission) ? parseScope(grant.scope) : null;
    return scope !== null && isCovered(scope);
  });
}

/** Whether the caller has the permission on a resource. */
export function may(access: Access, permission: Permission, target: AccessTarget = ORGANIZATION): boolean {
  return hasPermission(access, permission, scope => covers(scope, permission, target));
}

/** The shared environments of a pipeline that the caller can open. */
export function listReadableEnvironments(
  access: Access,
  { slug, environments }: Pick<Pipeline, "slug" | "environments">,
): string[] {
  return environments.filter(name => may(access, "environments:read", environmentTarget(slug, name)));
}

/** Whether there can be a resource on which the caller has the permission. */
export function maySomewhere(access: Access, permission: Permission): boolean {
  return hasPermission(access, permission, scope => canCover(scope, permission));
}

/** Whether a role has every permission of another role. Only an owner can give the role `owner`. */
export function roleIncludes(role: Role, other: Role): boolean {
  if (role === "owner" || other === "owner") return role === "owner";
  const all = Object.keys(PERMISSIONS) as Permission[];
  return all.every(each => roleHasPermission(role, each) || !roleHasPermission(other, each));
}
