import { expect, test } from "vitest";
import type { Deployed, Pipeline } from "@/api/types";
import { mayDecideApproval, mayOperate } from "./deploymentAccess";
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

const DEPLOYED = {
  pipelineId: "pl_1",
  slug: "shop",
  stages: PIPELINE.stages,
  environments: [{ envName: "qa-1" }, { envName: "demo" }] as Deployed["environments"],
};

test("an approver on environments decides approvals of these environments", () => {
  const access: Access = { role: "member", grants: [{ role: "approver", scope: "environment:shop/qa-*" }] };
  const mayDecide = (stage: string, pipelineId = "pl_1") =>
    mayDecideApproval(access, { pipelineId, stage }, [DEPLOYED]);
  expect(mayDecide("qa-1")).toBe(true);
  expect(mayDecide("demo")).toBe(false);
  expect(mayDecide("production")).toBe(false);
  expect(mayDecide("qa-1", "pl_2"), "unknown pipeline").toBe(false);
});

test("an approver on stages decides approvals of these stages", () => {
  const access: Access = { role: "viewer", grants: [{ role: "approver", scope: "stage:shop@*" }] };
  const mayDecide = (stage: string) => mayDecideApproval(access, { pipelineId: "pl_1", stage }, [DEPLOYED]);
  expect(mayDecide("production")).toBe(true);
  expect(mayDecide("qa-1")).toBe(false);
  const approver: Access = { role: "approver", grants: [] };
  expect(mayDecideApproval(approver, { pipelineId: "pl_2", stage: "qa-1" }, [DEPLOYED])).toBe(true);
});
