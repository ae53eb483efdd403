/** Deployments: start, log, approval, soak, cancel, retry and rollback. */
import { withToken } from "./harness/api";
import {
  buildDefinition,
  createPipeline,
  isFinished,
  runDeployment,
  startDeployment,
  waitForStatus,
} from "./harness/deployments";
import { Latch } from "./harness/latch";
import { Repository } from "./harness/repository";
import { expect, expectAccessible, expectLogGrowth, test } from "./harness/test";

test("a started deployment shows its growing log and its success", async ({ ada, world }) => {
  const latch = new Latch(world, "dep-live");
  const run = `echo "--- Prepare"
echo "preparing"
echo "--- Roll out"
i=0
while ${latch.isHeld}; do i=$((i+1)); echo "pod $i is ready"; sleep 0.1; done
echo "all pods are ready"`;
  await createPipeline(world, "dep-live", buildDefinition("Live", { Deploy: run }));
  await ada.goto("/o/acme/pipelines/dep-live");
  await ada.getByRole("button", { name: "Deploy", exact: true }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Commit").fill("v2.0.0");
  await dialog.getByRole("textbox", { name: "Reason" }).fill("the new cart");
  await expectAccessible(ada, "the deploy dialog");
  await ada.screenshot({ path: "screenshots/deployment-start-light.png" });
  await dialog.getByRole("button", { name: "Deploy" }).click();

  await expect(ada.getByRole("heading", { level: 1, name: "Live #1" })).toBeVisible();
  const log = ada.getByRole("region", { name: "Log of Deploy" });
  await expect(log).toContainText(/pod \d+ is ready/);
  await expectLogGrowth(ada);
  await expect(ada.getByText("succeeded", { exact: true })).toHaveCount(0);
  await expect(ada.getByText(/lines, following/)).toBeVisible();
  latch.release();
  await expect(log).toContainText("all pods are ready");
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible();
  await expect(ada.getByText("“the new cart”")).toBeVisible();
});

test("a followed log stops following on scroll and resumes with Follow", async ({ ada, world }) => {
  const latch = new Latch(world, "dep-follow");
  const run = `for i in $(seq 1 400); do echo "before $i"; done
i=0
while ${latch.isHeld}; do i=$((i+1)); echo "now $i"; sleep 0.1; done
for i in $(seq 1 100); do echo "last $i"; done`;
  await createPipeline(world, "dep-follow", buildDefinition("Follow", { Deploy: run }));
  const { id } = await startDeployment(world, "dep-follow", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  const log = ada.getByRole("region", { name: "Log of Deploy" });
  await expect(log).toContainText(/now \d+/);
  // The newest line is in the window, without scrolling the page.
  await expect(log.locator("[data-line]").last()).toBeInViewport();
  expect(await log.evaluate(it => it.getBoundingClientRect().bottom - innerHeight)).toBeLessThanOrEqual(0);
  await log.hover();
  await ada.mouse.wheel(0, -2_000);
  const follow = ada.getByRole("button", { name: "Follow" });
  await expect(follow).toBeVisible();
  const before = await log.evaluate(element => element.scrollTop);
  await expectLogGrowth(ada);
  expect(await log.evaluate(element => element.scrollTop)).toBe(before);
  await follow.click();
  await expect(follow).toBeHidden();
  latch.release();
  // The last lines arrive together with the end of the log and must be followed too.
  await expect(log).toContainText("last 100");
  await expect(ada.locator("[data-log-complete=true]")).toBeVisible();
  await expect
    .poll(() => log.evaluate(it => it.scrollHeight - it.clientHeight - it.scrollTop))
    .toBeLessThan(40);
});

test("the step that is shown stays when the deployment succeeds", async ({ ada, world }) => {
  const staging = new Latch(world, "dep-stay-staging");
  const production = new Latch(world, "dep-stay-production");
  const run = `while [ "$BERTH_STAGE" = staging ] && ${staging.isHeld}; do sleep 0.1; done
while [ "$BERTH_STAGE" = production ] && ${production.isHeld}; do sleep 0.1; done
echo "deployed to $BERTH_STAGE"`;
  const stages = "[{ name: staging }, { name: production }]";
  await createPipeline(world, "dep-stay", buildDefinition("Stay", { Deploy: run }, stages));
  const { id } = await startDeployment(world, "dep-stay", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.getByRole("region", { name: "Step Deploy of staging" })).toBeVisible();
  staging.release();
  await expect(ada.getByRole("region", { name: "Step Deploy of production" })).toBeVisible();
  production.release();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(ada.getByText("deployed to production")).toBeVisible();
  await expect(ada.getByRole("region", { name: "Step Deploy of production" })).toBeVisible();
});

test("a failed deployment opens at the failing line and can be retried", async ({ ada, world }) => {
  const run = `echo "--- Test"
for i in $(seq 1 3000); do echo "case $i ok"; done
printf '\\033[31merror:\\033[0m case 3001 expected 200, got 503\\n'
for i in $(seq 1 60); do echo "  frame $i"; done
exit 1`;
  await createPipeline(world, "dep-fail", buildDefinition("Fails", { Check: run }));
  const { id } = await runDeployment(world, "dep-fail", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  const failing = ada.locator("[data-failing]");
  await expect(failing).toBeInViewport();
  await expect(failing).toHaveAttribute("data-line", "3002");
  await expect(failing).toContainText("error: case 3001 expected 200, got 503");
  const why = ada.getByRole("region", { name: "Why it failed" });
  await expect(why.getByRole("heading")).toHaveText("Check failed in production: exit code 1");
  // Nothing succeeded before.
  await expect(ada.getByRole("button", { name: "Roll back" })).toHaveCount(0);

  await ada.getByRole("button", { name: "Retry" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Uses the same commit");
  await dialog.getByRole("button", { name: "Retry" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(ada.getByText("Attempt 2 of 2")).toBeVisible({ timeout: 20_000 });
  await ada.getByRole("radiogroup", { name: "Attempt" }).getByText("Attempt 1").click();
  await expect(ada).toHaveURL(/attempt=/);
});

test("retrying a failed deployment in an environment starts a new deployment in the same session", async ({
  ada,
  world,
}) => {
  const latch = new Latch(world, "dep-env");
  const run = `if ${latch.isHeld}; then echo "not yet"; exit 1; fi\necho "fixed"`;
  const text = `${buildDefinition("Shared", { Deploy: run })}  ephemeral_environments: { qa-1: {} }\n`;
  await createPipeline(world, "dep-env", text);
  const api = withToken(world);
  const path = "/ORG/pipelines/dep-env/ephemeral-environments/qa-1/sessions";
  const { deploymentId } = await api("POST", path, { commitId: "v1" });
  await waitForStatus(world, deploymentId, isFinished);
  latch.release();

  await ada.goto(`/o/acme/deployments/${deploymentId}`);
  await ada.getByRole("button", { name: "Retry" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Starts a new deployment of the same commit in your session");
  await expectAccessible(ada, "the retry dialog");
  await dialog.getByRole("button", { name: "Retry" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "#2" })).toBeVisible();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible();
  await ada.getByRole("link", { name: "an earlier deployment" }).click();
  await expect(ada).toHaveURL(new RegExp(deploymentId));
});

const GATED = `version: 1
pipeline:
  name: Gated
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1, from: [admin] }
  steps:
    - name: Deploy
      type: dummy
      params: { message: "deployed" }
`;

test("a deployment is approved on its page, rolled back, and its pipeline resumed", async ({
  ada,
  world,
}) => {
  await createPipeline(world, "dep-gated", GATED);
  const first = await startDeployment(world, "dep-gated", "v1");
  await ada.goto(`/o/acme/deployments/${first.id}`);
  const wait = ada.locator("[data-waits-for=approval]");
  await expect(wait).toContainText("Production needs an approval from admins");
  await ada.screenshot({ path: "screenshots/deployment-approval-light.png", fullPage: true });
  await wait.getByRole("button", { name: "Approve" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Comment").fill("looks good");
  await dialog.getByRole("button", { name: "Approve" }).click();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
  await expect(wait).toHaveCount(0);

  const second = await startDeployment(world, "dep-gated", "v2", { bypass: { reason: "the shop is down" } });
  await waitForStatus(world, second.id, isFinished);
  await ada.goto(`/o/acme/deployments/${second.id}`);
  await expect(ada.locator("[data-banner=bypass]")).toContainText("the shop is down");

  await ada.getByRole("button", { name: "Roll back" }).click();
  await expect(dialog).toContainText("New deployments to production are paused");
  await expect(dialog).toContainText("Redeploys v1 to production, in place of v2");
  await dialog.getByLabel("Reason").fill("5xx everywhere");
  await expectAccessible(ada, "the rollback dialog");
  await ada.screenshot({ path: "screenshots/deployment-rollback-light.png" });
  await dialog.getByRole("button", { name: "Roll back production" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Gated #3" })).toBeVisible();
  await expect(ada.getByText("Rollback of production", { exact: true })).toBeVisible();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });

  await ada.goto("/o/acme/pipelines/dep-gated");
  await expect(ada.getByText("New deployments to production are paused")).toBeVisible();
  await expect(ada.getByText("“5xx everywhere”")).toBeVisible();
  await ada.getByRole("button", { name: "Resume" }).click();
  await dialog.getByRole("button", { name: "Resume" }).click();
  await expect(ada.getByText("New deployments to production are paused")).toHaveCount(0);
});

const SOAKS = `version: 1
pipeline:
  name: Soaks
  stages: [{ name: production }]
  steps:
    - name: Deploy
      type: dummy
      params: { message: "deployed" }
    - name: Watch
      type: soak
      params: { duration: 1h }
    - name: Tidy
      type: dummy
      params: { duration: 10m }
`;

test("a soak is ended early and the deployment cancelled", async ({ ada, world }) => {
  await createPipeline(world, "dep-soaks", SOAKS);
  const { id } = await startDeployment(world, "dep-soaks", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  const wait = ada.locator("[data-waits-for=soak]");
  await expect(wait).toContainText("watch is soaking", { ignoreCase: true });
  await expect(wait).toContainText(/59:\d\d left/);
  await wait.getByRole("button", { name: "End soak" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByRole("button", { name: "End soak" }).click();
  await expect(wait).toHaveCount(0);
  await expect(ada.getByRole("button", { name: "Tidy: running" })).toBeVisible();
  await ada.getByRole("button", { name: "Cancel" }).click();
  await dialog.getByLabel("Reason").fill("wrong commit");
  await dialog.getByRole("button", { name: "Cancel deployment" }).click();
  await expect(ada.getByText("Cancelled by ada", { exact: true })).toBeVisible({ timeout: 20_000 });
});

test("a deployment of an unknown commit says so once and shows no steps", async ({ ada, world }) => {
  const repository = new Repository(world, "dep-unknown");
  const text = buildDefinition("Unknown", { Deploy: "true" });
  repository.write(".berth/dep-unknown/pipeline.yaml", `${text}  ephemeral_environments: { qa-1: {} }\n`);
  repository.commit("first");
  const api = withToken(world);
  await api("POST", "/ORG/repositories", { url: repository.path });
  const sessions = "/ORG/pipelines/dep-unknown/ephemeral-environments/qa-1/sessions";
  const claim = () => api("POST", sessions, { commitId: "feature/nope" }).catch(() => undefined);
  let held: { deploymentId: string } | undefined;
  await expect.poll(async () => (held = await claim()), { timeout: 20_000 }).toBeDefined();
  const id = held?.deploymentId ?? "";
  await waitForStatus(world, id, isFinished);
  await ada.goto(`/o/acme/deployments/${id}`);
  const main = ada.getByRole("main");
  await expect(main.getByRole("heading", { name: /no commit feature\/nope/ })).toHaveCount(1);
  await expect(main.getByText("feature/nope")).toHaveCount(2);
  await expect(main.getByRole("region", { name: "Steps" })).toHaveCount(0);
  for (const action of ["Redeploy", "Roll back"])
    await expect(main.getByRole("button", { name: action })).toHaveCount(0);
});

test("a deployment is redeployed, and one in an environment is promoted", async ({ ada, world }) => {
  const text = `${buildDefinition("Again", { Deploy: 'echo "url=https://again.test" >> "$BERTH_OUTPUT"' })}`;
  const outputs = text.replace("      params:", "      outputs: [url]\n      params:");
  await createPipeline(world, "dep-again", `${outputs}  ephemeral_environments: { qa-1: {} }\n`);
  const { id } = await runDeployment(world, "dep-again", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.getByRole("link", { name: "Open site" })).toHaveAttribute("href", "https://again.test");
  await ada.getByRole("button", { name: "Redeploy" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("Deploys v1 to production");
  await expectAccessible(ada, "the dialog to redeploy");
  await dialog.getByRole("button", { name: "Redeploy" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Again #2" })).toBeVisible();

  const path = "/ORG/pipelines/dep-again/ephemeral-environments/qa-1/sessions";
  const { deploymentId } = await withToken(world)("POST", path, { commitId: "v2" });
  await waitForStatus(world, deploymentId, isFinished);
  await ada.goto(`/o/acme/deployments/${deploymentId}`);
  const navigation = ada.getByRole("navigation", { name: "Main" });
  await expect(navigation.getByRole("link", { name: "Pipelines" })).toHaveAttribute("aria-current", "page");
  await ada.getByRole("button", { name: "Promote" }).click();
  await expect(dialog).toContainText("Deploys v2 to production");
  await dialog.getByRole("button", { name: "Promote" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Again #3" })).toBeVisible();
  await ada.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "Again" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Again" })).toBeVisible();
});

test("waiting is shown apart from running, and the graph replaces the list of steps", async ({
  ada,
  world,
}) => {
  await createPipeline(world, "dep-waits", GATED.replace("Gated", "Waits"));
  const { id } = await startDeployment(world, "dep-waits", "v1");
  await waitForStatus(world, id, status => status === "waiting");
  await ada.clock.install();
  await ada.goto(`/o/acme/deployments/${id}`);
  const steps = ada.getByRole("region", { name: "Steps" });
  await expect(steps.getByRole("button", { name: "Deploy: succeeded" })).toBeVisible();
  await ada.clock.fastForward(12 * 60_000);
  await expect(steps).toContainText("Waiting for 12 min");
  await expect(ada.getByRole("main")).toContainText("(+12 min waiting)");
  await steps.getByText("Graph", { exact: true }).click();
  await expect(steps.getByRole("group", { name: "Stages and steps" })).toBeVisible();
  await expectAccessible(ada, "the graph of a deployment");
});

test("steps can be opened with the keyboard", async ({ ada, world }) => {
  await createPipeline(world, "dep-keys", buildDefinition("Keys", { One: "echo first", Two: "echo second" }));
  const { id } = await runDeployment(world, "dep-keys", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.getByRole("region", { name: "Log of Two" })).toContainText("second");
  await ada.getByRole("button", { name: "One: succeeded" }).focus();
  await ada.keyboard.press("Enter");
  await expect(ada.getByRole("region", { name: "Log of One" })).toContainText("first");
  await expect(ada).toHaveURL(/step=stp_/);
  await ada.keyboard.press("/");
  await expect(ada.getByLabel(/Search the log/)).toBeFocused();
});

const LOOKS = [
  { look: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { look: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { look: "phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
] as const;

const WHOLE = `version: 1
pipeline:
  name: Checkout service
  build:
    - name: Compile
      type: script
      params: { run: 'echo "--- Fetch"; seq 1 40; echo "+++ Compile"; printf "\\033[32mFinished\\033[0m checkout 1.4\\n"; echo image=checkout:1.4 >> "$BERTH_OUTPUT"' }
      outputs: [image]
  stages:
    - name: staging
    - name: production
  steps:
    - name: Migrate
      id: migrate
      type: dummy
      params: { message: "3 migrations" }
    - name: Roll out
      id: rollout
      type: script
      params:
        run: |
          echo "--- Preparing"
          for i in $(seq 1 30); do echo "layer $i: already there"; done
          echo "--- Rolling out checkout:1.4"
          for i in $(seq 1 18); do echo "pod $i is ready"; done
          printf '\\033[31merror:\\033[0m readiness probe of checkout-7f9c failed: connection refused\\n'
          echo "  at rollout.sh:42"
          exit 1
    - name: Smoke test
      id: smoke
      needs: [rollout]
      type: dummy
    - name: Warm caches
      id: warm
      needs: [rollout]
      type: dummy
`;

test("the deployment page is accessible in light, dark and on a phone", async ({ ada, world }) => {
  await createPipeline(world, "dep-whole", WHOLE);
  const { id } = await runDeployment(world, "dep-whole", "v1.4.2", { reason: "Faster checkout" });
  for (const { look, colorScheme, viewport } of LOOKS) {
    await ada.emulateMedia({ colorScheme });
    await ada.setViewportSize(viewport);
    await ada.goto(`/o/acme/deployments/${id}`);
    await expect(ada.locator("[data-failing]")).toBeVisible();
    await expect(ada.getByRole("main")).toContainText(
      /isolated by bubblewrap|restricted by Landlock|not isolated/,
    );
    await expect(ada.locator("[aria-busy=true]")).toHaveCount(0);
    await ada.evaluate(() => document.fonts.ready);
    await ada.screenshot({ path: `screenshots/deployment-${look}.png`, fullPage: true });
    const overflow = await ada.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(overflow, `wider than the window in ${look}`).toBeLessThanOrEqual(0);
    await expectAccessible(ada, `a deployment in ${look}`);
    await ada.goto("/o/acme/pipelines/dep-whole");
    await expect(ada.getByRole("link", { name: "#1", exact: true })).toBeVisible();
    await ada.screenshot({ path: `screenshots/pipeline-page-${look}.png`, fullPage: true });
    await expectAccessible(ada, `a pipeline in ${look}`);
  }
});
