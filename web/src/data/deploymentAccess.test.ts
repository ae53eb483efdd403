import { expect, test } from "vitest";
import type { Pipeline } from "@/api/types";
import { mayOperate } from "./deploymentAccess";
import type { Access } from "./permissions";

const PIPELINE = {
  slug: "shop",
  stages: [{ name: "staging" }, { name: "production" }] as Pipeline["stages"],
};
const IN_STAGES = { envName: null };

test("an operation on stages needs the permission on every affected stage", () => {
  const access: Access = { role: "viewer", grants: [{ role: "deployer", scope: "stage:shop@production" }] };
  expect(mayOperate(access, IN_STAGES, PIPELINE, { only: "production" })).toBe(true);
  expect(mayOperate(access, IN_STAGES, PIPELINE, { from: "production" })).toBe(true);
  expect(mayOperate(access, IN_STAGES, PIPELINE, { from: "staging" })).toBe(false);
  expect(mayOperate(access, IN_STAGES, PIPELINE, "all")).toBe(false);
  expect(mayOperate(access, IN_STAGES, PIPELINE, { from: "build" }), "a build affects all stages").toBe(
    false,
  );
  expect(mayOperate(access, IN_STAGES, undefined, "all"), "unknown pipeline").toBe(false);
});

test("a tester operates deployments in environments, not in stages", () => {
  const access: Access = { role: "member", grants: [{ role: "tester", scope: "pipeline:shop" }] };
  expect(mayOperate(access, { envName: "qa-1" }, PIPELINE, { from: "qa-1" })).toBe(true);
  expect(mayOperate(access, IN_STAGES, PIPELINE, { only: "staging" })).toBe(false);
});
