import type { Page } from "@playwright/test";
import { expect, isAccessible, signedIn, test } from "./harness/test";

test.use({ parts: ["quay", "crane", "search", "linus", "vera"] });

const BOARD = "/o/acme/environments?search=quay";

function card(page: Page, name: string) {
  return page.getByRole("article", { name, exact: true });
}

test("claim, deploy, release", async ({ ada }) => {
  await ada.goto(BOARD);
  const berth = card(ada, "quay-1");
  await berth.getByRole("button", { name: "Claim" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Commit, branch or tag").fill("v7");
  await dialog.getByLabel("Why").fill("a walk through");
  await dialog.getByLabel("For how long").selectOption("1 hour");
  await ada.screenshot({ path: "screenshots/claim-light.png" });
  await isAccessible(ada, "the claim dialog");
  await dialog.getByRole("button", { name: "Claim" }).click();

  await expect(berth).toContainText("Held by you");
  await expect(berth).toContainText("“a walk through”");
  await expect(berth).toContainText(/59:\d\d left/);
  await expect(berth).toContainText("has v7");

  await berth.getByRole("button", { name: "Deploy" }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("v8");
  await dialog.getByRole("button", { name: "Deploy" }).click();
  await expect(berth).toContainText("has v8");

  await berth.getByRole("button", { name: "Release" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(berth).toContainText("Free");
  await ada.goto("/o/acme/environments/quay/quay-1");
  await expect(ada.getByRole("region", { name: "History" })).toContainText("given back");
});

test("contention: one waits in line, another takes over, and the loser sees it happen", async ({
  browser,
  ada,
  world,
}) => {
  const grace = await signedIn(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto(BOARD);
  await ada.goto(BOARD);
  await card(grace, "quay-2").getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("dialog").getByLabel("Why").fill("load test");
  await grace.getByRole("dialog").getByLabel("Commit, branch or tag").fill("slow");
  await grace.getByRole("dialog").getByRole("button", { name: "Claim" }).click();

  // Ada did not reload.
  const seen = card(ada, "quay-2");
  await expect(seen).toContainText("Held by Grace Hopper");
  await seen.getByRole("button", { name: "Wait in line" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Wait in line" }).click();
  await expect(card(grace, "quay-2")).toContainText("In line: ada");
  await seen.getByRole("button", { name: /Leave the line/ }).click();
  await expect(card(grace, "quay-2")).not.toContainText("In line");

  await seen.getByRole("button", { name: "Take over" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Take over quay-2 from Grace Hopper");
  await expect(dialog).toContainText("load test");
  await expect(dialog.getByRole("button", { name: "Take over" })).toBeDisabled();
  await dialog.getByLabel("Why you take over").fill("hotfix for a customer");
  await isAccessible(ada, "the take-over dialog");
  await dialog.getByRole("button", { name: "Take over" }).click();

  await expect(seen).toContainText("Held by you");
  await expect(card(grace, "quay-2")).toContainText("Held by ada");
  await expect(grace.getByText(/ada took quay-2 over from you/)).toBeVisible();
  await card(grace, "quay-2").getByRole("link", { name: "quay-2" }).click();
  await expect(grace.getByRole("region", { name: "History" })).toContainText("taken over by ada");
  await card(ada, "quay-2").getByRole("button", { name: "Release" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await expect(seen).toContainText("Free");
});

test("the dialog names what will stop", async ({ ada }) => {
  await ada.goto("/o/acme/environments/warehouse/dock-1");
  await ada.getByRole("button", { name: "Take over" }).click();
  await expect(ada.getByRole("dialog")).toContainText("This stops:");
  await expect(ada.getByRole("dialog")).toContainText("crane");
  await ada.getByLabel("Why you take over").fill("hotfix for a customer");
  await ada.screenshot({ path: "screenshots/take-over-light.png" });
});

test("extend and hand over", async ({ ada }) => {
  await ada.goto("/o/acme/environments/search/perf");
  await ada.getByRole("button", { name: "Claim" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Claim" }).click();
  await ada.getByRole("button", { name: "Extend" }).click();
  await ada.getByRole("dialog").getByLabel("From now").selectOption("8 hours");
  await ada.getByRole("dialog").getByRole("button", { name: "Extend" }).click();
  await expect(ada.getByRole("region", { name: "The hold" })).toContainText(/7:59:\d\d left/);
  await ada.getByRole("button", { name: "Hand over" }).click();
  await ada.getByRole("dialog").getByLabel("To whom").selectOption({ label: "Linus (linus@acme.test)" });
  await ada.getByRole("dialog").getByRole("button", { name: "Hand over" }).click();
  await expect(ada.getByRole("region", { name: "The hold" })).toContainText("Held by Linus");
});

test("a viewer looks and is not offered more", async ({ context, world }) => {
  const page = await signedIn(context, world, world.vera);
  await page.goto(BOARD);
  await expect(card(page, "quay-1")).toContainText("You may look");
  await expect(page.getByRole("button", { name: "Claim" })).toHaveCount(0);
});
