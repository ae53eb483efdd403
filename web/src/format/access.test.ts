import { expect, test } from "vitest";
import {
  formatAlternatives,
  formatGrantSentence,
  formatPermissionSource,
  formatScopeName,
  grantRoleOptions,
  roleOptions,
} from "./access";

test.each([
  ["org", "the whole organization"],
  ["pipeline:shop", "the pipeline shop"],
  ["pipeline:shop-*", "pipelines that begin with shop-"],
  ["pipeline:*", "all pipelines"],
  ["environment:shop/qa-1", "the environment qa-1 of shop"],
  ["environment:shop/*", "all environments of shop"],
  ["environment:*/qa-1", "the environment qa-1 of all pipelines"],
  ["environment:shop-*/qa-*", "environments that begin with qa- of pipelines that begin with shop-"],
  ["stage:shop@production", "the stage production of shop"],
  ["nonsense", "nonsense"],
])("formatScopeName of %s", (scope, expected) => {
  expect(formatScopeName(scope)).toBe(expected);
});

test("formatGrantSentence says what a grant allows", () => {
  expect(formatGrantSentence("Grace", "tester", "environment:shop/qa-*")).toBe(
    "Grace can claim, deploy and release in environments of shop that begin with qa-",
  );
  expect(formatGrantSentence("Grace", "tester", "environment:shop/")).toBeNull();
});

test("formatPermissionSource names role, scope and team", () => {
  const source = { role: "deployer", scope: "stage:shop@production", grantId: "gnt_1", team: "SRE" } as const;
  expect(formatPermissionSource(source)).toBe("role deployer on the stage production of shop, team SRE");
  expect(formatPermissionSource({ role: "viewer", scope: "org", grantId: null, team: null })).toBe(
    "role viewer in the organization",
  );
});

test("role options contain only roles that the caller can give", () => {
  expect(roleOptions("admin").map(each => each.value)).not.toContain("owner");
  expect(roleOptions("owner")).toHaveLength(7);
  expect(grantRoleOptions("owner").map(each => each.value)).toEqual([
    "viewer",
    "tester",
    "approver",
    "deployer",
    "admin",
  ]);
});

test("formatAlternatives joins names", () => {
  expect(formatAlternatives(["Ada"])).toBe("Ada");
  expect(formatAlternatives(["Ada", "Grace", "Linus"])).toBe("Ada, Grace or Linus");
});
