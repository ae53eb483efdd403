import { expect, test } from "vitest";
import type { DeploymentStage } from "@/api/types";
import { siteUrl } from "./siteUrl";

function stage(name: string, status: string, url?: string): DeploymentStage {
  const steps = [{ outputs: url === undefined ? {} : { url } }];
  return { name, kind: "stage", status, steps } as unknown as DeploymentStage;
}

test("the site is the last output url of a stage that succeeded", () => {
  const stages = [
    stage("staging", "succeeded", "https://staging.test"),
    stage("production", "failed", "https://shop.test"),
  ];
  expect(siteUrl({ stages, envName: null }, "shop", null)).toBe("https://staging.test");
});

test("an output that is not a web address is ignored", () => {
  const stages = [stage("staging", "succeeded", "javascript:alert(1)")];
  expect(siteUrl({ stages, envName: null }, "shop", null)).toBeUndefined();
});

test("the demo knows the sites of its pipeline", () => {
  const demo = { sites: [{ place: "staging", url: "http://127.0.0.1:8082" }] };
  const deployed = { stages: [stage("staging", "succeeded")], envName: null };
  expect(siteUrl(deployed, "shop", demo)).toBe("http://127.0.0.1:8082");
  expect(siteUrl(deployed, "cart", demo)).toBeUndefined();
  expect(siteUrl({ stages: [stage("staging", "failed")], envName: null }, "shop", demo)).toBeUndefined();
});
