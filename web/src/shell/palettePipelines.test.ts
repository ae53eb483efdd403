import { expect, test } from "vitest";
import type { Deployed } from "@/api/types";
import type { Access } from "@/data/permissions";
import { listPalettePipelines } from "./palettePipelines";

const LOADED = [
  {
    pipelineId: "pl_1",
    slug: "shop",
    name: "Shop",
    environments: [
      { environmentId: "env_1", envName: "qa-1", holder: { id: "usr_1", name: "Grace" } },
      { environmentId: "env_2", envName: "qa-2", holder: null },
      { environmentId: "env_3", envName: "demo", holder: null },
    ],
  },
] as Deployed[];
const SEARCHED = [
  { id: "pl_1", slug: "shop", name: "Shop", environments: ["qa-1", "qa-2", "demo"] },
  { id: "pl_2", slug: "docs", name: "Docs", environments: ["preview", "demo"] },
];

function namesFor(access: Access): string[] {
  return listPalettePipelines(access, LOADED, SEARCHED).flatMap(each =>
    each.environments.map(({ envName }) => `${each.slug}/${envName}`),
  );
}

test("a caller with grants finds only the environments of these grants", () => {
  const grants: Access["grants"] = [
    { role: "tester", scope: "environment:shop/qa-*" },
    { role: "viewer", scope: "environment:docs/preview" },
  ];
  expect(namesFor({ role: "member", grants })).toEqual(["shop/qa-1", "shop/qa-2", "docs/preview"]);
  expect(namesFor({ role: "member", grants: [{ role: "viewer", scope: "stage:shop@production" }] })).toEqual(
    [],
  );
});

test("a viewer finds all environments, and each pipeline once", () => {
  const access: Access = { role: "viewer", grants: [] };
  expect(namesFor(access)).toEqual(["shop/qa-1", "shop/qa-2", "shop/demo", "docs/preview", "docs/demo"]);
  const [shop, docs] = listPalettePipelines(access, LOADED, SEARCHED);
  expect(shop?.environments.map(each => each.state)).toEqual(["held by Grace", "free", "free"]);
  expect(docs?.environments.map(each => each.state)).toEqual([undefined, undefined]);
});
