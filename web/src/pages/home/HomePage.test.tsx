import { fireEvent, screen, within } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Approval, Deployed, DeployedEnvironment, FailedDeployment, Stage } from "@/api/types";
import { removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { HomePage } from "./HomePage";

const SYSTEM = { type: "system", id: null, name: "berth", tokenId: null } as const;
const COMMIT = "4d6d0ebe".repeat(5);
const CURRENT = {
  commitId: COMMIT,
  deploymentId: "dep_3",
  at: "2026-11-18T12:00:00.000Z",
  by: SYSTEM,
  behindBy: 1,
  commit: null,
};
const FAILED: FailedDeployment = {
  deploymentId: "dep_4",
  number: 4,
  commitId: "9fceb02d".repeat(5),
  at: "2026-11-18T14:00:00.000Z",
  by: SYSTEM,
  commit: null,
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
const ADA = { type: "user", id: "usr_1", name: "Ada" } as const;
const BOB = { type: "user", id: "usr_2", name: "Bob" } as const;
const STAGING: Stage = { name: "staging", current: null, paused: null };

function pipelineWith(change: Partial<Deployed>): Deployed {
  return {
    pipelineId: "pl_1",
    slug: "shop",
    name: "Shop",
    head: null,
    stages: [STAGING],
    environments: [],
    ...change,
  };
}

function listOf(data: unknown[]) {
  return { data, pagination: { limit: 50, offset: 0, total: 1, hasMore: false, nextCursor: null } };
}

/** Opens Home and waits for its pipelines. */
async function renderHome(
  pipelines: Deployed[],
  answers: { approvals?: unknown[]; failed?: unknown[] } = {},
) {
  stubServer({
    "GET /deployed": listOf(pipelines),
    "GET /approvals": listOf(answers.approvals ?? []),
    "GET /deployments": listOf(answers.failed ?? []),
  });
  renderPage(HomePage, "/");
  return screen.findByRole("region", { name: "Pipelines" });
}

function section(name: string) {
  return screen.getByRole("region", { name });
}

afterEach(removePage);

test("a stage whose newest deployment failed is failing, next to what is deployed there", async () => {
  const stages: Stage[] = [{ name: "staging", current: CURRENT, failed: FAILED, paused: null }];
  const failed = [{ id: "dep_4", stages: [], detail: "./check.sh: permission denied\nat line 3" }];
  const row = await renderHome([pipelineWith({ failed: FAILED, stages })], { failed });
  expect(within(row).getByRole("link", { name: "failed" }).getAttribute("href")).toBe(
    "/o/acme/deployments/dep_4",
  );
  expect(within(row).getByRole("link", { name: "4d6d0ebe" })).toBeTruthy();
  const failing = within(section("Failing"));
  expect(failing.getByRole("link", { name: "Shop · staging #4" })).toBeTruthy();
  expect(await failing.findByText("./check.sh: permission denied")).toBeTruthy();
  expect(failing.getByRole("link", { name: "Log of Shop · staging #4" })).toBeTruthy();
  expect(failing.getByRole("button", { name: "Retry Shop · staging #4" })).toBeTruthy();
});

test("a first deployment that failed before its first stage is failing", async () => {
  await renderHome([pipelineWith({ failed: FAILED })]);
  expect(within(section("Failing")).getByRole("link", { name: "Shop #4" })).toBeTruthy();
});

test("a deployment that failed in an environment can be retried by the holder of its session only", async () => {
  const held = (heldSince: string) => ({ ...QA, failed: FAILED, holder: ADA, heldSince });
  const environments = [
    { ...held("2026-11-18T13:00:00.000Z"), environmentId: "env_1", envName: "qa-1" },
    { ...held("2026-11-18T15:00:00.000Z"), environmentId: "env_2", envName: "qa-2" },
    { ...QA, failed: FAILED, environmentId: "env_3", envName: "qa-3" },
  ];
  await renderHome([pipelineWith({ environments })]);
  const failing = within(section("Failing"));
  expect(failing.getAllByRole("link", { name: /^Log of/ })).toHaveLength(3);
  expect(failing.getAllByRole("button").map(each => each.getAttribute("aria-label"))).toEqual([
    "Retry Shop · qa-1 #4",
  ]);
});

test("a pending approval needs the user, and marks its stage", async () => {
  const approval: Partial<Approval> = {
    id: "apr_1",
    pipelineId: "pl_1",
    deploymentId: "dep_5",
    stage: "production",
    commitId: COMMIT,
    required: 1,
    given: 0,
    requestedAt: CURRENT.at,
  };
  const stages: Stage[] = [STAGING, { name: "production", current: CURRENT, paused: null }];
  const row = await renderHome([pipelineWith({ stages })], { approvals: [approval] });
  const needs = within(await screen.findByRole("region", { name: "Needs you" }));
  expect(needs.getByRole("link", { name: "Review Shop → production" }).getAttribute("href")).toContain(
    "approval=apr_1",
  );
  expect(needs.getByRole("button", { name: "Approve Shop → production" })).toBeTruthy();
  expect(within(row).getByText("1 behind, needs approval")).toBeTruthy();
});

test("an announced takeover needs the holder, who can release", async () => {
  const held: DeployedEnvironment = {
    ...QA,
    holder: ADA,
    heldSince: CURRENT.at,
    queueLength: 1,
    takeover: { by: BOB, at: new Date(Date.now() + 300_000).toISOString(), reason: "customer demo" },
  };
  await renderHome([pipelineWith({ environments: [held] })]);
  const text = /Bob will take over in \d+ (min|s): “customer demo”/;
  const needs = section("Needs you");
  expect(needs.textContent).toMatch(text);
  expect(
    within(needs)
      .getAllByRole("button")
      .map(each => each.getAttribute("aria-label")),
  ).toEqual(["Release qa-1"]);
  expect(section("Environments").textContent).toMatch(text);
});

test("people who wait for the user’s environment need the user", async () => {
  const held: DeployedEnvironment = { ...QA, holder: ADA, heldSince: CURRENT.at, queueLength: 2 };
  await renderHome([pipelineWith({ environments: [held] })]);
  expect(section("Needs you").textContent).toContain("2 people wait for it while you hold it");
});

test("each environment has the actions that its state allows", async () => {
  const environments = [
    { ...QA, environmentId: "env_1", envName: "qa-1", holder: ADA, heldSince: CURRENT.at },
    {
      ...QA,
      environmentId: "env_2",
      envName: "qa-2",
      holder: BOB,
      heldSince: CURRENT.at,
      context: "load test",
    },
    { ...QA, environmentId: "env_3", envName: "qa-3" },
  ];
  await renderHome([pipelineWith({ environments })]);
  const buttons = (name: string) =>
    within(within(section("Environments")).getByRole("listitem", { name: `Shop ${name}` }))
      .queryAllByRole("button")
      .map(each => each.textContent);
  expect(buttons("qa-1")).toEqual(["Deploy", "Release"]);
  expect(buttons("qa-2")).toEqual(["Join queue", "Take over"]);
  expect(buttons("qa-3")).toEqual(["Claim"]);
  expect(section("Environments").textContent).toContain("“load test”");
});

test("the commit of a stage can be promoted to the next one", async () => {
  const newer = { ...CURRENT, commitId: "9fceb02d".repeat(5), at: "2026-11-18T13:00:00.000Z", behindBy: 0 };
  const stages: Stage[] = [
    { ...STAGING, current: newer },
    { name: "production", current: CURRENT, paused: null },
  ];
  const row = await renderHome([
    pipelineWith({ stages }),
    pipelineWith({ pipelineId: "pl_2", name: "Cart" }),
  ]);
  expect(
    within(row)
      .getAllByRole("button")
      .map(each => each.getAttribute("aria-label")),
  ).toEqual(["Promote Shop to production", "Deploy Shop", "Deploy Cart"]);
});

test("many pipelines are dense, and can be filtered by pipeline, environment and holder", async () => {
  const pipelines = Array.from({ length: 12 }, (_, at) =>
    pipelineWith({
      pipelineId: `pl_${at}`,
      slug: `service-${at}`,
      name: `Service ${at}`,
      environments: [{ ...QA, environmentId: `env_${at}`, holder: at === 7 ? BOB : null }],
    }),
  );
  const table = await renderHome(pipelines);
  expect(within(table).getByRole("list").parentElement?.getAttribute("data-density")).toBe("dense");
  fireEvent.click(screen.getByRole("button", { name: "Comfortable rows" }));
  expect(within(table).getByRole("list").parentElement?.getAttribute("data-density")).toBe("comfortable");
  localStorage.clear();
  fireEvent.change(screen.getByRole("textbox", { name: /Filter/ }), { target: { value: "bob" } });
  const environments = within(section("Environments"));
  expect(environments.getAllByRole("listitem").map(each => each.getAttribute("aria-label"))).toEqual([
    "Service 7 qa-1",
  ]);
  expect(screen.queryByRole("region", { name: "Pipelines" })).toBeNull();
});
