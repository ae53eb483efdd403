/** Whole stories, as people live them: from the first press to the last. */
import { withToken } from "./harness/api";
import { Latch } from "./harness/latch";
import { registry } from "./harness/registry";
import { definition, makePipeline, start, when } from "./harness/run";
import { expect, expectLogGrowth, isAccessible, signedIn, test } from "./harness/test";

test.use({ parts: ["grace"] });

/** Prints a line every tenth of a second while the shell condition holds. */
function talkWhile(condition: string): string {
  return `i=0
while ${condition}; do i=$((i+1)); echo "crane moved box $i to $BERTH_COMMIT"; sleep 0.1; done
echo "all boxes are ashore"`;
}

function withEnvironments(text: string, names: string[]): string {
  return `${text}  ephemeral_environments:\n${names.map(name => `    ${name}: {}\n`).join("")}`;
}

test("claim, deploy, watch the log grow, release", async ({ ada, world }) => {
  const latch = new Latch(world, "quay");
  const quay = withEnvironments(definition("Quay", { Unload: talkWhile(latch.isHeld) }), ["quay-1"]);
  await makePipeline(world, "story-quay", quay);
  await ada.goto("/o/acme/environments?search=story-quay");
  const berth = ada.getByRole("article", { name: "quay-1" });
  await berth.getByRole("button", { name: "Claim" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Why").fill("unloading");
  await dialog.getByRole("button", { name: "Claim" }).click();
  await expect(berth).toContainText("Held by you");

  await berth.getByRole("button", { name: "Deploy" }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("ship-7");
  await dialog.getByRole("button", { name: "Deploy" }).click();
  await expect(dialog).toHaveCount(0);
  await ada.getByRole("button", { name: "Watch it" }).click();

  const log = ada.getByRole("region", { name: "Log of Unload" });
  await expect(log).toContainText(/crane moved box \d+ to ship-7/);
  await expectLogGrowth(ada);
  await expect(ada.getByText(/lines?, following/)).toBeVisible();
  latch.release();
  // Nobody reloads: the lines come by themselves, and the last one is in sight of whoever looks at the log.
  await expect(ada.locator("[data-log-complete=true]")).toBeVisible();
  await log.evaluate(element => element.scrollIntoView({ block: "end" }));
  await expect(log.getByText("all boxes are ashore")).toBeInViewport();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible();

  await ada.getByRole("link", { name: "quay-1", exact: true }).click();
  await ada.getByRole("button", { name: "Release" }).click();
  await dialog.getByRole("button", { name: "Release" }).click();
  await expect(ada.getByRole("region", { name: "History" })).toContainText("given back");
  await ada.getByRole("region", { name: "History" }).getByRole("button", { name: "1 deployment" }).click();
  await expect(ada.getByRole("region", { name: "History" }).getByRole("link", { name: "#1" })).toBeVisible();
  await isAccessible(ada, "the history of a hold, opened");
  await ada.screenshot({ path: "screenshots/history-light.png", fullPage: true });
  await expect(ada.getByRole("button", { name: "Claim" })).toBeVisible();
});

test("who is overrun sees it on the page of the deployment that stops", async ({ browser, ada, world }) => {
  const text = definition("Dry dock", { Paint: talkWhile("true") });
  await makePipeline(world, "story-dock", withEnvironments(text, ["dock"]));
  const path = "/o/acme/environments/story-dock/dock";
  const grace = await signedIn(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto(path);
  await grace.getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("dialog").getByLabel("Commit, branch or tag").fill("red");
  await grace.getByRole("dialog").getByLabel("Why").fill("a new coat");
  await grace.getByRole("dialog").getByRole("button", { name: "Claim" }).click();
  await grace.getByRole("region", { name: "Deployments of this hold" }).getByRole("link").first().click();
  await expect(grace.getByRole("region", { name: "Log of Paint" })).toContainText(/box \d+ to red/);
  await expectLogGrowth(grace);

  await ada.goto(path);
  await ada.getByRole("button", { name: "Take over" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Take over dock from Grace Hopper");
  await expect(dialog).toContainText("red");
  await dialog.getByLabel("Why you take over").fill("a leak");
  await dialog.getByRole("button", { name: "Take over" }).click();

  await expect(grace.getByText("ada took dock over from you: “a leak”.")).toBeVisible();
  await expect(grace.getByText("cancelled", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(grace.locator("[data-log-complete=true]")).toBeVisible({ timeout: 20_000 });
  await expect(grace.locator("[data-banner=taken-over]")).toContainText("ada took dock over while this ran");
  await expect(grace.locator("[data-banner=taken-over]")).toContainText("a leak");
  await grace.screenshot({ path: "screenshots/overrun-light.png", fullPage: true });
  await isAccessible(grace, "a deployment that was overrun");
  await grace.goto(path);
  await expect(grace.getByRole("main")).toContainText("ada");
  await expect(grace.getByRole("button", { name: "Release" })).toHaveCount(0);
  await expect(grace.getByRole("region", { name: "History" })).toContainText("taken over by ada");
  await expect(ada.getByRole("button", { name: "Release" })).toBeVisible();
  await grace.context().close();
});

test("nobody knows how a step ended, somebody looks, says so, and it goes on", async ({ ada, world }) => {
  const api = withToken(world);
  // It is called, and ends without an answer.
  const onCall = `echo "the rope is cut"; exit 1`;
  const made = registry(world, "silent-steps", [{ stepType: "CUSTOM:CUT" }], onCall);
  await api("POST", "/ORG/step-registries", { name: "silent", url: made.path });
  const status = async () => (await api("GET", "/ORG/step-registries/silent")).status;
  await expect.poll(status, { timeout: 30_000 }).toBe("ready");
  await makePipeline(
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
  const { id } = await start(world, "story-unknown", "v1");
  await when(world, id, status => status === "waiting");
  await ada.goto(`/o/acme/deployments/${id}`);
  const wait = ada.locator("[data-waits-for=unknown_outcome]");
  await expect(wait).toContainText("obody knows whether");
  await expect(ada.getByRole("region", { name: "Log of Cut" })).toContainText("the rope is cut");
  await wait.getByRole("button", { name: "Say what happened" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Say so" })).toBeDisabled();
  await isAccessible(ada, "what became of a step");
  await ada.screenshot({ path: "screenshots/resolve-light.png" });
  await dialog.getByLabel("It took effect").press("Space");
  await dialog.getByRole("button", { name: "Say so" }).press("Enter");
  await expect(wait).toHaveCount(0);
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(ada.getByRole("button", { name: "Tie: succeeded" })).toBeVisible();
});
