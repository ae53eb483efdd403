import { expect, test } from "vitest";
import type { Approval, Deployed } from "@/api/types";
import type { Access } from "@/data/permissions";
import { listPaletteActions } from "./paletteActions";

const PIPELINES = [
  {
    pipelineId: "pl_1",
    slug: "shop",
    name: "Shop",
    stages: [{ name: "production" }],
    environments: [
      { environmentId: "env_1", envName: "qa-1", holder: { id: "usr_2", name: "Grace" } },
      { environmentId: "env_2", envName: "qa-2", holder: null },
      { environmentId: "env_3", envName: "demo", holder: { id: "usr_1", name: "Ada" } },
    ],
  },
] as Deployed[];
const APPROVALS = [
  { id: "apr_1", pipelineId: "pl_1", stage: "production", commitId: "v1" },
] as unknown as Approval[];

const labelsFor = (access: Access) =>
  listPaletteActions(access, "usr_1", "acme", PIPELINES, APPROVALS).map(each => each.label);

test("a deployer approves, deploys, claims and takes over", () => {
  expect(labelsFor({ role: "deployer", grants: [] })).toEqual([
    "Approve Shop → production",
    "Reject Shop → production",
    "Deploy Shop",
    "Join queue for qa-1",
    "Take over qa-1",
    "Claim qa-2",
    "Deploy to demo",
    "Release demo",
    "Extend demo",
    "Hand over demo",
  ]);
});

test("a viewer gets no actions, a tester of one environment its own", () => {
  expect(labelsFor({ role: "viewer", grants: [] })).toEqual([]);
  const grants = [{ role: "tester", scope: "environment:shop/qa-2" }] as Access["grants"];
  expect(labelsFor({ role: "viewer", grants })).toEqual(["Claim qa-2"]);
});

test("an action leads to the page that opens its dialog", () => {
  const all = listPaletteActions({ role: "owner", grants: [] }, "usr_1", "acme", PIPELINES, APPROVALS);
  expect(all[0]).toMatchObject({ to: "/o/acme/approvals", do: "approve", approval: "apr_1" });
  expect(all.find(each => each.label === "Take over qa-1")).toMatchObject({
    to: "/o/acme/environments/shop/qa-1",
    do: "take-over",
    description: "Shop, held by Grace",
  });
});
