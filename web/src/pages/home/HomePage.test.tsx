import { screen, within } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Deployed, DeployedEnvironment, FailedDeployment, Stage } from "@/api/types";
import { removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { HomePage } from "./HomePage";

const SYSTEM = { type: "system", id: null, name: "berth", tokenId: null } as const;
const CURRENT = {
  commitId: "4d6d0ebe".repeat(5),
  deploymentId: "dep_3",
  at: "2026-11-18T12:00:00.000Z",
  by: SYSTEM,
  behindBy: 1,
};
const FAILED: FailedDeployment = {
  deploymentId: "dep_4",
  number: 4,
  commitId: "9fceb02d".repeat(5),
  at: "2026-11-18T14:00:00.000Z",
  by: SYSTEM,
};
const QA: DeployedEnvironment = {
  environmentId: "env_1",
  envName: "qa-1",
  current: null,
  holder: null,
  heldSince: null,
  heldUntil: null,
  context: null,
  queueLength: 0,
  deploying: null,
};

function pipelineWith(change: Partial<Deployed>): Deployed {
  const staging: Stage = { name: "staging", current: null, paused: null };
  return {
    pipelineId: "pl_1",
    slug: "shop",
    name: "Shop",
    head: null,
    stages: [staging],
    environments: [],
    ...change,
  };
}

async function renderHome(pipeline: Deployed) {
  const pagination = { limit: 50, offset: 0, total: 1, hasMore: false, nextCursor: null };
  stubServer({
    "GET /deployed": { data: [pipeline], pagination },
    "GET /approvals": { data: [], pagination },
  });
  renderPage(HomePage, "/");
  return screen.findByRole("region", { name: "Shop" });
}

afterEach(removePage);

test("a stage whose newest deployment failed shows it, next to what is deployed", async () => {
  const stages: Stage[] = [{ name: "staging", current: CURRENT, failed: FAILED, paused: null }];
  const card = await renderHome(pipelineWith({ failed: FAILED, stages }));
  expect(within(card).getByRole("link", { name: /#4 of 9fceb02d failed/ })).toBeTruthy();
  expect(within(card).getByRole("link", { name: "4d6d0ebe" })).toBeTruthy();
  expect(card.textContent).toContain("Deployed: 4d6d0ebe");
  expect(within(card).getByText("failed")).toBeTruthy();
  const attention = within(screen.getByRole("region", { name: "Needs your attention" }));
  expect(attention.getAllByRole("link").map(each => each.textContent)).toEqual(["Shop → staging #4 failed"]);
});

test("a first deployment that failed before its first stage is shown", async () => {
  const card = await renderHome(pipelineWith({ failed: FAILED }));
  expect(within(card).getByRole("link", { name: /#4 of 9fceb02d failed/ })).toBeTruthy();
  const attention = within(screen.getByRole("region", { name: "Needs your attention" }));
  expect(attention.getByRole("link", { name: "Shop #4 failed" })).toBeTruthy();
});

test("an environment whose newest deployment failed shows it", async () => {
  const card = await renderHome(pipelineWith({ environments: [{ ...QA, failed: FAILED }] }));
  expect(within(card).getByText("#4 of 9fceb02d failed")).toBeTruthy();
});

test("an announced takeover is shown to the holder, also among what needs attention", async () => {
  const held: DeployedEnvironment = {
    ...QA,
    holder: { type: "user", id: "usr_1", name: "Ada" },
    heldSince: CURRENT.at,
    takeover: {
      by: { type: "user", id: "usr_2", name: "Bob" },
      at: new Date(Date.now() + 300_000).toISOString(),
      reason: "customer demo",
    },
  };
  const card = await renderHome(pipelineWith({ environments: [held] }));
  const text = /Bob will take over in \d+ (min|s): “customer demo”/;
  expect(card.textContent).toMatch(text);
  expect(screen.getByRole("region", { name: "Needs your attention" }).textContent).toMatch(text);
});
