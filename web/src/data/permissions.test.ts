import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Role } from "@/api/types";
import {
  type Access,
  formatScope,
  listReadableEnvironments,
  may,
  maySomewhere,
  PERMISSIONS,
  type Permission,
  parseScope,
  ROLES,
  roleHasPermission,
  roleIncludes,
} from "./permissions";

function readCells(line: string): string[] {
  return line
    .split("|")
    .slice(1, -1)
    .map(cell => cell.trim());
}

test("PERMISSIONS matches docs/permissions.md", () => {
  const lines = readFileSync("../docs/permissions.md", "utf8").split("\n");
  const columns = readCells(lines.find(line => line.startsWith("| permission")) ?? "");
  const rows = lines.filter(line => line.startsWith("| `")).map(readCells);
  expect(columns.slice(2)).toEqual([...ROLES]);
  expect(rows.map(row => row[0]?.replaceAll("`", ""))).toEqual(Object.keys(PERMISSIONS));
  for (const row of rows) {
    const permission = row[0]?.replaceAll("`", "") as Permission;
    const documented = ROLES.filter(role => row[columns.indexOf(role)] === "yes");
    const known = ROLES.filter(role => roleHasPermission(role, permission));
    expect(known, permission).toEqual(documented);
  }
});

function access(role: Role, ...grants: [Role, string][]): Access {
  return { role, grants: grants.map(([role, scope]) => ({ role, scope })) };
}

function mayOn(who: Access, permission: Permission, on: string): boolean {
  const target = parseScope(on);
  if (!target) throw new Error(`${on} is not a resource`);
  return may(who, permission, target);
}

test.each(["org", "pipeline:shop", "pipeline:*", "environment:shop/qa-*", "environment:*/*", "stage:a@b"])(
  "scope %s is parsed and formatted back",
  text => {
    const scope = parseScope(text);
    expect(scope && formatScope(scope)).toBe(text);
  },
);

test.each([
  ["", "shop", "org:", "pipeline:", "pipeline:a/b", "pipeline:a*b", "pipeline:**", "pipeline:a@b"],
  ["environment:shop", "environment:shop/", "environment:/qa", "environment:a/b/c", "environment:a@b"],
  ["environment:Shop/qa", "stage:a/b", "stage:a@b@c", "team:a", "environment:*/qa*-1", "pipeline:-*"],
])("invalid scopes are rejected: %s, …", (...texts) => {
  for (const text of texts) expect(parseScope(text), text).toBeNull();
});

test("tester on qa-* works in these environments, reads their pipeline, and nothing else", () => {
  const grace = access("member", ["tester", "environment:shop/qa-*"]);
  const allowed: [Permission, string][] = [
    ["environments:claim", "environment:shop/qa-1"],
    ["environments:read", "environment:shop/qa-2"],
    ["deployments:operate", "environment:shop/qa-1"],
    ["pipelines:read", "pipeline:shop"],
    ["organization:read", "org"],
  ];
  for (const [permission, on] of allowed) {
    expect(mayOn(grace, permission, on), `${permission} on ${on}`).toBe(true);
    expect(maySomewhere(grace, permission), permission).toBe(true);
  }
  const refused: [Permission, string][] = [
    ["environments:force_claim", "environment:shop/qa-1"],
    ["environments:claim", "environment:shop/qa"],
    ["environments:claim", "environment:shop/staging"],
    ["environments:claim", "environment:shop2/qa-1"],
    ["secrets:read", "pipeline:shop"],
    ["pipelines:read", "pipeline:docs"],
    ["pipelines:read", "org"],
    ["deployments:read", "stage:shop@qa-1"],
    ["stages:deploy", "stage:shop@production"],
    ["runners:read", "org"],
  ];
  for (const [permission, on] of refused)
    expect(mayOn(grace, permission, on), `${permission} on ${on}`).toBe(false);
  expect(maySomewhere(grace, "stages:deploy")).toBe(false);
  expect(maySomewhere(grace, "secrets:read")).toBe(false);
});

test("only environments that the caller can open are listed", () => {
  const pipeline = { slug: "shop", environments: ["qa-1", "demo", "qa-2"] };
  const grace = access("member", ["tester", "environment:shop/qa-*"]);
  expect(listReadableEnvironments(grace, pipeline)).toEqual(["qa-1", "qa-2"]);
  expect(listReadableEnvironments(grace, { ...pipeline, slug: "docs" })).toEqual([]);
  expect(listReadableEnvironments(access("member", ["deployer", "stage:shop@qa-1"]), pipeline)).toEqual([]);
  expect(listReadableEnvironments(access("viewer"), pipeline)).toEqual(pipeline.environments);
});

test("deployer on a stage deploys there only", () => {
  const linus = access("viewer", ["deployer", "stage:shop@production"]);
  expect(mayOn(linus, "stages:deploy", "stage:shop@production")).toBe(true);
  expect(mayOn(linus, "approvals:decide", "stage:shop@production")).toBe(true);
  expect(mayOn(linus, "stages:deploy", "stage:shop@staging")).toBe(false);
  expect(mayOn(linus, "environments:claim", "environment:shop/production")).toBe(false);
  expect(mayOn(linus, "pipelines:operate", "pipeline:shop")).toBe(false);
});

test("pipeline scope covers its environments, stages and secrets, but nothing of the organization", () => {
  const ada = access("member", ["admin", "pipeline:shop-*"]);
  expect(mayOn(ada, "secrets:write", "pipeline:shop-api")).toBe(true);
  expect(mayOn(ada, "environments:claim", "environment:shop-api/qa-1")).toBe(true);
  expect(mayOn(ada, "gates:bypass", "stage:shop-api@production")).toBe(true);
  expect(mayOn(ada, "secrets:write", "pipeline:shop")).toBe(false);
  expect(mayOn(ada, "secrets:write", "org")).toBe(false);
  expect(maySomewhere(ada, "members:write")).toBe(false);
});

test("a pattern never matches across a separator", () => {
  const who = access("member", ["tester", "environment:s*/*"]);
  expect(may(who, "environments:claim", { kind: "environment", pipeline: "shop", name: "a/b" })).toBe(false);
  expect(may(who, "environments:claim", { kind: "environment", pipeline: "s@a", name: "b" })).toBe(false);
});

test("role on the organization in a grant covers everything", () => {
  const who = access("member", ["deployer", "org"]);
  expect(mayOn(who, "stages:deploy", "stage:shop@production")).toBe(true);
  expect(mayOn(who, "runners:read", "org")).toBe(true);
});

test("tester and approver do not include each other", () => {
  expect(roleIncludes("tester", "approver")).toBe(false);
  expect(roleIncludes("approver", "tester")).toBe(false);
  expect(roleIncludes("deployer", "tester")).toBe(true);
  expect(roleIncludes("admin", "owner")).toBe(false);
});
