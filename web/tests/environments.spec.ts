import type { Page } from "@playwright/test";
import { logInAs, withToken } from "./harness/api";
import { Repository } from "./harness/repository";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test.use({ parts: ["quay", "crane", "search", "linus", "vera"] });

const BOARD = "/o/acme/environments?search=quay";

function card(page: Page, name: string) {
  return page.getByRole("article", { name, exact: true });
}

test("an environment is claimed, deployed to and released", async ({ ada }) => {
  await ada.goto(BOARD);
  const environment = card(ada, "quay-1");
  await environment.getByRole("button", { name: "Claim" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Commit, branch or tag").fill("v7");
  await dialog.getByLabel("Reason").fill("a walk through");
  await dialog.getByLabel("Duration").selectOption("1 hour");
  await ada.screenshot({ path: "screenshots/claim-light.png" });
  await expectAccessible(ada, "the claim dialog");
  await dialog.getByRole("button", { name: "Claim" }).click();

  await expect(environment).toContainText("Held by you");
  await expect(environment).toContainText("“a walk through”");
  await expect(environment).toContainText(/until (\d+ \w+, )?\d\d:\d\d/);
  await expect(environment).toContainText("Deployed: v7");

  await environment.getByRole("button", { name: "Deploy" }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("v8");
  await dialog.getByRole("button", { name: "Deploy" }).click();
  await expect(environment).toContainText("Deployed: v8");

  await environment.getByRole("button", { name: "Release" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(environment).toContainText("Free");
  await ada.goto("/o/acme/environments/quay/quay-1");
  await expect(ada.getByRole("region", { name: "Session history" })).toContainText("released");
});

test("a held environment is queued for and taken over, and its holder is notified", async ({
  browser,
  ada,
  world,
}) => {
  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto(BOARD);
  await ada.goto(BOARD);
  await card(grace, "quay-2").getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("dialog").getByLabel("Reason").fill("load test");
  await grace.getByRole("dialog").getByLabel("Commit, branch or tag").fill("slow");
  await grace.getByRole("dialog").getByRole("button", { name: "Claim" }).click();

  // Without a reload.
  const seen = card(ada, "quay-2");
  await expect(seen).toContainText("Held by Grace Hopper");
  await seen.getByRole("button", { name: "Join queue" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Join queue" }).click();
  await expect(card(grace, "quay-2")).toContainText("Queue: ada");
  await seen.getByRole("button", { name: /Leave queue/ }).click();
  await expect(card(grace, "quay-2")).not.toContainText("Queue");

  // An announced takeover reaches the holder on every page, and can be cancelled.
  const dialog = ada.getByRole("dialog");
  await seen.getByRole("button", { name: "Take over" }).click();
  await dialog.getByLabel("Reason").fill("customer demo");
  await dialog.getByLabel("In 5 minutes").click();
  await dialog.getByRole("button", { name: "Take over" }).click();
  await expect(grace.getByText("ada will take over quay-2 from you in 5 min: “customer demo”")).toBeVisible();
  await expect(card(grace, "quay-2")).toContainText(/ada will take over in \d+ (min|s): “customer demo”/);
  await seen.getByRole("button", { name: "Cancel takeover" }).click();
  await expect(card(grace, "quay-2")).not.toContainText("will take over");

  await seen.getByRole("button", { name: "Take over" }).click();
  await expect(dialog).toContainText("Take over quay-2 from Grace Hopper");
  await expect(dialog).toContainText("load test");
  await expect(dialog.getByRole("button", { name: "Take over" })).toBeDisabled();
  await dialog.getByLabel("Reason").fill("hotfix for a customer");
  await expectAccessible(ada, "the take-over dialog");
  await dialog.getByRole("button", { name: "Take over" }).click();

  await expect(seen).toContainText("Held by you");
  await expect(card(grace, "quay-2")).toContainText("Held by ada");
  await expect(grace.getByText(/ada took over quay-2 from you/)).toBeVisible();
  await card(grace, "quay-2").getByRole("link", { name: "quay-2" }).click();
  await expect(grace.getByRole("region", { name: "Session history" })).toContainText("taken over by ada");
  await card(ada, "quay-2").getByRole("button", { name: "Release" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(seen).toContainText("Free");

  // A release by another user also notifies the holder.
  const sessions = "/ORG/pipelines/quay/ephemeral-environments/quay-2/sessions";
  const asGrace = await logInAs(world, world.grace);
  const held = await asGrace("POST", sessions, {});
  await withToken(world)("DELETE", `${sessions}/${held.sessionId}`);
  await expect(grace.getByText("ada released your session on quay-2")).toBeVisible();
});

test("the takeover dialog lists the deployments it cancels", async ({ ada }) => {
  await ada.goto("/o/acme/environments/warehouse/dock-1");
  await ada.getByRole("button", { name: "Take over" }).click();
  await expect(ada.getByRole("dialog")).toContainText("This cancels:");
  await expect(ada.getByRole("dialog")).toContainText("crane");
  await ada.getByLabel("Reason").fill("hotfix for a customer");
  await ada.screenshot({ path: "screenshots/take-over-light.png" });
});

test("a session is extended and handed over", async ({ ada }) => {
  await ada.goto("/o/acme/environments/search/perf");
  await ada.getByRole("button", { name: "Claim" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Claim" }).click();
  await ada.getByRole("button", { name: "Extend" }).click();
  await ada.getByRole("dialog").getByLabel("Expires in").selectOption("8 hours");
  await ada.getByRole("dialog").getByRole("button", { name: "Extend" }).click();
  await expect(ada.getByRole("region", { name: "Session", exact: true })).toContainText(
    /until (\d+ \w+, )?\d\d:\d\d/,
  );
  await expect(ada.getByTitle(/^in (7|8) h$/)).toBeVisible();
  await ada.getByRole("button", { name: "Hand over" }).click();
  await ada.getByRole("dialog").getByLabel("New holder").selectOption({ label: "Linus (linus@acme.test)" });
  await ada.getByRole("dialog").getByRole("button", { name: "Hand over" }).click();
  await expect(ada.getByRole("region", { name: "Session", exact: true })).toContainText("Held by Linus");
});

test("a viewer sees environments without actions", async ({ context, world }) => {
  const page = await openPageAs(context, world, world.vera);
  await page.goto(BOARD);
  await expect(card(page, "quay-1")).toContainText("You don’t have permission to claim this environment.");
  await expect(page.getByRole("button", { name: "Claim" })).toHaveCount(0);
});

test("a mistyped branch does not claim an environment", async ({ ada, world }) => {
  const definition = `version: 1
pipeline:
  name: Ferry
  stages: [{ name: production }]
  steps: [{ name: Deploy, type: dummy, params: { message: "deployed" } }]
  ephemeral_environments: { ferry-1: {} }
`;
  const repository = new Repository(world, "ferry");
  repository.write(
    ".berth/ferry/pipeline.yaml",
    definition.replace("name: Ferry", "name: Ferry\n  tracks: main"),
  );
  repository.commit("Add the ferry");
  await withToken(world)("POST", "/ORG/repositories", { url: repository.path });
  await expect
    .poll(async () => (await withToken(world)("GET", "/ORG/pipelines?search=ferry")).length)
    .toBe(1);
  await ada.goto("/o/acme/environments/ferry/ferry-1");
  await ada.getByRole("button", { name: "Claim" }).click();
  const dialog = ada.getByRole("dialog");
  const claim = dialog.getByRole("button", { name: "Claim" });
  await dialog.getByLabel("Commit, branch or tag").fill("mian");
  await expect(dialog).toContainText("Did you mean main?");
  await expect(claim).toBeDisabled();
  await expectAccessible(ada, "the claim dialog with a mistyped branch");
  await dialog.getByLabel("“mian” is correct").check();
  await expect(claim).toBeEnabled();
  await dialog.getByRole("button", { name: "main", exact: true }).click();
  await expect(dialog.getByLabel("Commit, branch or tag")).toHaveValue("main");
  await claim.click();
  await expect(ada.getByRole("region", { name: "Session", exact: true })).toContainText("Held by you");
});

test("the holder replies to an announced takeover by releasing", async ({ browser, ada, world }) => {
  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  const path = "/o/acme/environments/quay/quay-1";
  const api = withToken(world);
  await api("POST", "/ORG/pipelines/quay/ephemeral-environments/quay-1/sessions", {
    context: "an errand",
  });
  const asGrace = await logInAs(world, world.grace);
  await asGrace("POST", "/ORG/pipelines/quay/ephemeral-environments/quay-1/force-claim", {
    mode: "grace",
    graceSeconds: 300,
    reason: "customer demo",
  });
  await ada.goto(path);
  const banner = ada.getByRole("status", { name: /will take over/ });
  await expect(banner).toContainText(/Grace Hopper will take over in \d+ (min|s): “customer demo”/);
  await expectAccessible(ada, "an announced takeover");
  await banner.getByRole("button", { name: "Release to Grace Hopper now" }).click();
  await expect(ada.getByRole("dialog")).toContainText("Grace Hopper is next in the queue and gets it.");
  await ada.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await expect(ada.getByRole("region", { name: "Session", exact: true })).toContainText(
    "Held by Grace Hopper",
  );
  await grace.goto(path);
  const history = grace.getByRole("region", { name: "Session history" });
  await expect(history.getByRole("list", { name: "Holders" })).toContainText("Grace Hopper");
  await expect(history).toContainText("released");
  await grace.context().close();
});
