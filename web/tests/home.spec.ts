/** Home: what needs the user, what is failing, and the actions of its rows. */
import type { Page } from "@playwright/test";
import { withToken } from "./harness/api";
import { buildDefinition, createPipeline, runDeployment } from "./harness/deployments";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test.use({ parts: ["quay", "approval", "search", "grace"] });

const MANY = 200;
const ENVIRONMENTS_OF_EACH = ["a", "b", "c"];
const AT_ONCE = 10;

function row(page: Page, name: string) {
  return page.getByRole("listitem", { name, exact: true });
}

test("an environment is claimed, asked for and released from its row", async ({ browser, ada, world }) => {
  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto("/o/acme");
  await ada.goto("/o/acme");
  await row(ada, "Quay quay-1").getByRole("button", { name: "Claim quay-1" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Commit, branch or tag").fill("v7");
  await dialog.getByLabel("Reason").fill("a walk through");
  await dialog.getByRole("button", { name: "Claim" }).click();
  await expect(row(ada, "Quay quay-1")).toContainText("You since");
  await expect(row(ada, "Quay quay-1").getByRole("link", { name: "v7" })).toBeVisible();

  // Without a reload.
  const seen = row(grace, "Quay quay-1");
  await expect(seen).toContainText("ada");
  await expect(seen).toContainText("“a walk through”");
  await expect(seen.getByRole("button", { name: "Take over quay-1" })).toBeVisible();
  await seen.getByRole("button", { name: "Join queue quay-1" }).click();
  await grace.getByRole("dialog").getByRole("button", { name: "Join queue" }).click();
  await expect(seen).toContainText("You are no. 1");
  const needs = ada.getByRole("region", { name: "Needs you" });
  await expect(needs).toContainText("1 person waits for it while you hold it");
  await expectAccessible(ada, "Home with everything");
  await ada.screenshot({ path: "screenshots/home-busy-light.png" });

  await needs.getByRole("button", { name: "Release quay-1" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(seen).toContainText("You since");
  await grace.context().close();
});

test("a pending approval is given, and a failed stage retried, on Home", async ({ ada, world }) => {
  await runDeployment(world, "search", "broken-index");
  await ada.goto("/o/acme");
  const failing = ada.getByRole("region", { name: "Failing" });
  await expect(failing).toContainText("Search · staging #1");
  await expect(failing).toContainText("exited with 3");
  await expect(row(ada, "Search").getByText("failed")).toBeVisible();
  await failing.getByRole("button", { name: "Retry Search · staging #1" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await expect(ada.getByText("Retrying staging")).toBeVisible();

  await expect(row(ada, "Checkout")).toContainText("needs approval");
  const needs = ada.getByRole("region", { name: "Needs you" });
  await needs.getByRole("button", { name: "Approve Checkout → production" }).press("Enter");
  await ada.getByRole("dialog").getByRole("button", { name: "Approve" }).press("Enter");
  await expect(row(ada, "Checkout")).not.toContainText("needs approval");
  await expect(row(ada, "Checkout").getByRole("link", { name: "v1.1.0" })).toHaveCount(2);
  await failing.getByRole("link", { name: /^Log of Search/ }).click();
  await expect(ada.getByRole("region", { name: "Log of Deploy" })).toContainText("no such index: products");
});

test("many pipelines and environments are dense, virtualized and filtered", async ({ ada, world }) => {
  test.setTimeout(180_000);
  const environments = ENVIRONMENTS_OF_EACH.map(name => `    ${name}: {}\n`).join("");
  const text = `${buildDefinition("Fleet", { Deploy: "true" })}  ephemeral_environments:\n${environments}`;
  for (let from = 0; from < MANY; from += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, (_, at) => from + at);
    await Promise.all(
      some.map(at => createPipeline(world, `fleet-${at}`, text.replace("name: Fleet", `name: Fleet ${at}`))),
    );
  }
  await ada.goto("/o/acme");
  const pipelines = ada.getByRole("region", { name: "Pipelines" });
  await expect(pipelines.locator("[data-density=dense]")).toBeVisible();
  await expect(pipelines.getByRole("listitem").first()).toBeVisible();
  await expect.poll(() => ada.getByRole("listitem").count()).toBeLessThan(120);
  await expectAccessible(ada, "Home with many pipelines");
  await ada.mouse.wheel(0, 100_000);
  await expect(
    ada.getByRole("region", { name: "Environments" }).getByRole("listitem").last(),
  ).toBeInViewport();

  await ada.keyboard.press("/");
  await ada.keyboard.type("fleet 199");
  await expect(ada.getByRole("listitem")).toHaveCount(1 + ENVIRONMENTS_OF_EACH.length);
  await ada.getByRole("button", { name: "Comfortable rows" }).click();
  await expect(pipelines.locator("[data-density=comfortable]")).toBeVisible();
  await ada.reload();
  await expect(pipelines.locator("[data-density=comfortable]")).toBeVisible();
});

test("the environment of a finished session shows what runs there", async ({ ada, world }) => {
  const api = withToken(world);
  const sessions = "/ORG/pipelines/quay/ephemeral-environments/quay-2/sessions";
  const { sessionId, deploymentId } = await api("POST", sessions, { commitId: "v9" });
  await expect
    .poll(async () => (await api("GET", `/ORG/deployments/${deploymentId}`)).status)
    .toBe("succeeded");
  await api("DELETE", `${sessions}/${sessionId}`);
  await ada.goto("/o/acme");
  await ada.getByRole("textbox", { name: /^Filter/ }).fill("quay-2");
  await expect(row(ada, "Quay quay-2")).toContainText("free");
  await expect(row(ada, "Quay quay-2").getByRole("link", { name: "v9" })).toHaveAttribute(
    "href",
    `/o/acme/deployments/${deploymentId}`,
  );
});
