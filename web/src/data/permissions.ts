/** Permissions of roles, used to hide actions that the server would reject. The server enforces them. */
import type { Role } from "@/api/types";

const RANK: Record<Role, number> = { viewer: 0, deployer: 1, admin: 2, owner: 3 };

/** The lowest role with each permission that a page checks; a test compares it with docs/permissions.md. */
export const LOWEST_ROLE = {
  "organization:write": "admin",
  "members:write": "admin",
  "tokens:manage": "admin",
  "pipelines:write": "admin",
  "pipelines:operate": "deployer",
  "repositories:write": "admin",
  "environments:claim": "deployer",
  "environments:force_claim": "deployer",
  "drain:override": "admin",
  "deployments:operate": "deployer",
  "gates:bypass": "admin",
  "approvals:decide": "deployer",
  "secrets:write": "admin",
  "webhooks:write": "admin",
  "registries:write": "admin",
  "runners:write": "admin",
  "analysis:run": "deployer",
  "analysis:settings": "admin",
} as const satisfies Record<string, Role>;

export type Permission = keyof typeof LOWEST_ROLE;

export function roleHasPermission(role: Role, permission: Permission): boolean {
  return RANK[role] >= RANK[LOWEST_ROLE[permission]];
}
