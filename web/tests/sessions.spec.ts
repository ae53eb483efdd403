/** End-to-end scenarios in shared environments. */
import { withToken } from "./harness/api";
import { buildDefinition, createPipeline, startDeployment, waitForStatus } from "./harness/deployments";
import { Latch } from "./harness/latch";
import { createRegistry } from "./harness/registry";
import { expect, expectAccessible, expectLogGrowth, openPageAs, test } from "./harness/test";

test.use({ parts: ["grace"] });

/** Returns a script that prints a line every 100 ms while the shell condition holds. */
function printWhile(condition: string): string {
  return `i=0
while ${condition}; do i=$((i+1)); echo "crane moved box $i to $BERTH_COMMIT"; sleep 0.1; done
echo "all boxes are ashore"`;
}

function withEnvironments(text: string, names: string[]): string {
  return `${text}  ephemeral_environments:\n${names.map(name => `    ${name}: {}\n`).join("")}`;
}

test("an environment is claimed, a deployment watched, and the environment released", async ({
  ada,
  world,
}) => {
  const latch = new Latch(world, "quay");
  const quay = withEnvironments(buildDefinition("Quay", { Unload: printWhile(latch.isHeld) }), ["quay-1"]);
  await createPipeline(world, "story-quay", quay);
  await ada.goto("/o/acme/environments?search=story-quay");
  const environment = ada.getByRole("article", { name: "quay-1" });
  await environment.getByRole("button", { name: "Claim" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("unloading");
  await dialog.getByRole("button", { name: "Claim" }).click();
  await expect(environment).toContainText("Held by you");

  await environment.getByRole("button", { name: "Deploy" }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("ship-7");
  await dialog.getByRole("button", { name: "Deploy" }).click();
  await expect(dialog).toHaveCount(0);
  await ada.getByRole("button", { name: "View deployment" }).click();

  const log = ada.getByRole("region", { name: "Log of Unload" });
  await expect(log).toContainText(/crane moved box \d+ to ship-7/);
  await expectLogGrowth(ada);
  await expect(ada.getByText(/lines?, following/)).toBeVisible();
  latch.release();
  // Without a reload, the last line is visible.
  await expect(ada.locator("[data-log-complete=true]")).toBeVisible();
  // The page above the log can still grow, because the deployment ends at the same time.
  await expect(async () => {
    await log.evaluate(element => element.scrollIntoView({ block: "end" }));
    await expect(log.getByText("all boxes are ashore")).toBeInViewport({ timeout: 1_000 });
  }).toPass({ timeout: 10_000 });
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible();

  await ada.getByRole("link", { name: "quay-1", exact: true }).click();
  await ada.getByRole("button", { name: "Release" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(ada.getByRole("region", { name: "Session history" })).toContainText("released");
  await ada
    .getByRole("region", { name: "Session history" })
    .getByRole("button", { name: "1 deployment" })
    .click();
  await expect(
    ada.getByRole("region", { name: "Session history" }).getByRole("link", { name: "#1" }),
  ).toBeVisible();
  await expectAccessible(ada, "an expanded session in the history");
  await ada.screenshot({ path: "screenshots/history-light.png", fullPage: true });
  await expect(ada.getByRole("button", { name: "Claim" })).toBeVisible();
});

test("a takeover is shown on the page of the cancelled deployment", async ({ browser, ada, world }) => {
  const text = buildDefinition("Dry dock", { Paint: printWhile("true") });
  await createPipeline(world, "story-dock", withEnvironments(text, ["dock"]));
  const path = "/o/acme/environments/story-dock/dock";
  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto(path);
  await grace.getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("dialog").getByLabel("Commit, branch or tag").fill("red");
  await grace.getByRole("dialog").getByLabel("Reason").fill("a new coat");
  await grace.getByRole("dialog").getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("region", { name: "Deployments in this session" }).getByRole("link").first().click();
  await expect(grace.getByRole("region", { name: "Log of Paint" })).toContainText(/box \d+ to red/);
  await expectLogGrowth(grace);

  await ada.goto(path);
  await ada.getByRole("button", { name: "Take over" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Take over dock from Grace Hopper");
  await expect(dialog).toContainText("red");
  await dialog.getByLabel("Reason").fill("a leak");
  await dialog.getByRole("button", { name: "Take over" }).click();

  await expect(grace.getByText("ada took over dock from you: “a leak”")).toBeVisible();
  await expect(grace.getByText("cancelled", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(grace.locator("[data-log-complete=true]")).toBeVisible({ timeout: 20_000 });
  await expect(grace.locator("[data-banner=taken-over]")).toContainText(
    "ada took over dock while this deployment was running",
  );
  await expect(grace.locator("[data-banner=taken-over]")).toContainText("a leak");
  await grace.screenshot({ path: "screenshots/taken-over-light.png", fullPage: true });
  await expectAccessible(grace, "a deployment whose environment was taken over");
  await grace.goto(path);
  await expect(grace.getByRole("main")).toContainText("ada");
  await expect(grace.getByRole("button", { name: "Release" })).toHaveCount(0);
  await expect(grace.getByRole("region", { name: "Session history" })).toContainText("taken over by ada");
  await expect(ada.getByRole("button", { name: "Release" })).toBeVisible();
  await grace.context().close();
});

test("a step with an unknown outcome is resolved and the deployment continues", async ({ ada, world }) => {
  const api = withToken(world);
  // The step exits without a result.
  const onCall = `echo "the rope is cut"; exit 1`;
  const made = createRegistry(world, "silent-steps", [{ stepType: "CUSTOM:CUT" }], onCall);
  await api("POST", "/ORG/step-registries", { name: "silent", url: made.path });
  const status = async () => (await api("GET", "/ORG/step-registries/silent")).status;
  await expect.poll(status, { timeout: 30_000 }).toBe("ready");
  await createPipeline(
    world,
    "story-unknown",
    `version: 1
pipeline:
  name: Rope
  stages: [{ name: production }]
  steps:
    - { name: Cut, type: silent/cut }
    - { name: Tie, type: dummy, params: { message: "tied" } }
`,
  );
  const { id } = await startDeployment(world, "story-unknown", "v1");
  await waitForStatus(world, id, status => status === "waiting");
  await ada.goto(`/o/acme/deployments/${id}`);
  const wait = ada.locator("[data-waits-for=unknown_outcome]");
  await expect(wait).toContainText("is unknown");
  await expect(ada.getByRole("region", { name: "Log of Cut" })).toContainText("the rope is cut");
  await wait.getByRole("button", { name: "Resolve" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Resolve" })).toBeDisabled();
  await expectAccessible(ada, "the dialog to resolve a step");
  await ada.screenshot({ path: "screenshots/resolve-light.png" });
  await dialog.getByLabel("Mark as succeeded").press("Space");
  await dialog.getByRole("button", { name: "Resolve" }).press("Enter");
  await expect(wait).toHaveCount(0);
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(ada.getByRole("button", { name: "Tie: succeeded" })).toBeVisible();
});
