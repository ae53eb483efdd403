import { withToken } from "./harness/api";
import {
  buildDefinition,
  createPipeline,
  isFinished,
  runDeployment,
  waitForStatus,
} from "./harness/deployments";
import { FakeModel } from "./harness/fakeModel";
import { Repository } from "./harness/repository";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";
import type { World } from "./harness/world";

test.use({ parts: ["vera"] });

/** Creates a deployment that fails because a script in its repository is not executable. */
async function deployWithoutExecutableBit(world: World, slug: string) {
  const repository = new Repository(world, slug);
  const run = 'for i in $(seq 1 400); do echo "preparing $i"; done\n./deploy.sh\n';
  const text = buildDefinition("Crane control", { Deploy: run }).replace(
    "  stages:",
    "  tracks: main\n  stages:",
  );
  const environments = "  ephemeral_environments: { qa-1: {} }\n";
  repository
    .write(`.berth/${slug}/pipeline.yaml`, text + environments)
    .write("deploy.sh", "#!/bin/sh\necho hi\n");
  repository.commit("first");
  await withToken(world)("POST", "/ORG/repositories", { url: repository.path });
  const first = async () =>
    withToken(world)("GET", `/ORG/pipelines/${slug}/deployments`).then(
      found => found[0]?.id,
      () => undefined,
    );
  await expect.poll(first, { timeout: 20_000 }).toBeDefined();
  return { repository, deployment: await waitForStatus(world, await first(), isFinished) };
}

test("an analysis shows cause, evidence and fix, and opens a pull request", async ({ ada, world }) => {
  const { repository, deployment } = await deployWithoutExecutableBit(world, "anl-bit");
  expect(deployment.status).toBe("failed");
  await ada.goto(`/o/acme/deployments/${deployment.id}`);
  const why = ada.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("Nothing leaves this server");
  await expect(why.getByRole("button", { name: "Preview request" })).toHaveCount(0);

  // With the keyboard only.
  await why.getByRole("button", { name: "Analyze failure" }).press("Enter");
  await expect(why).toContainText("no AI", { timeout: 20_000 });
  await expect(why).toContainText("deploy.sh");
  await expect(why).toContainText("What to do:");
  await why.getByRole("button", { name: "Show evidence and fix" }).press("Enter");
  const evidence = why.getByRole("list", { name: "Evidence" });
  await expect(evidence).toContainText("Permission denied");
  const log = ada.getByRole("region", { name: "Log of Deploy" });
  await log.evaluate(element => element.scrollTo(0, 0));
  await evidence.getByRole("link", { name: "Line 401" }).press("Enter");
  await expect(ada).toHaveURL(/attempt=1&lines=L401/);
  await expect(ada.locator("[data-line='401'][data-chosen]")).toBeInViewport();
  await expect(log).toBeFocused();
  // Again, after scrolling away.
  await log.evaluate(element => element.scrollTo(0, 0));
  await expect(ada.locator("[data-line='401']")).toHaveCount(0);
  await evidence.getByRole("link", { name: "Line 401" }).click();
  await expect(ada.locator("[data-line='401'][data-chosen]")).toBeInViewport();

  const fix = why.getByRole("region", { name: "Suggested fix" });
  const diff = fix.getByRole("region", { name: "Suggested change" });
  await expect(diff).toContainText("old mode 100644");
  await expect(diff).toContainText("new mode 100755");
  await expectAccessible(ada, "an analysis in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(ada, "an analysis in dark");
  await ada.screenshot({ path: "screenshots/analysis-dark.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "light" });
  await ada.screenshot({ path: "screenshots/analysis-light.png", fullPage: true });

  await why.getByRole("button", { name: "Open pull request" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("nothing is force-pushed or merged");
  await expectAccessible(ada, "the pull request dialog");
  await dialog.getByRole("button", { name: "Open pull request" }).press("Enter");
  await expect(why.locator("[data-pull=pushed]")).toContainText("berth/fix-", { timeout: 20_000 });
  const branch = (await why.locator("[data-pull=pushed] code").textContent()) ?? "";
  expect(repository.git("ls-tree", branch, "deploy.sh")).toMatch(/^100755 /);
  await expect(why.getByRole("button", { name: /pull request/ })).toHaveCount(0);

  await why.getByRole("button", { name: "Deploy the fix in qa-1" }).press("Enter");
  await expect(dialog).toContainText(`Claims qa-1 and deploys the branch ${branch}`);
  await expectAccessible(ada, "the dialog to deploy a fix");
  await dialog.getByRole("button", { name: "Deploy in qa-1" }).press("Enter");
  await expect(ada.getByRole("heading", { level: 1, name: "qa-1 #1" })).toBeVisible();
  await expect(ada.getByRole("main").getByText("succeeded", { exact: true }).first()).toBeVisible({
    timeout: 20_000,
  });
});

test("an automatic analysis is visible to a viewer", async ({ context, world }) => {
  const vera = await openPageAs(context, world, world.vera);
  const text = buildDefinition("Asks", { Build: "echo compiling\nno-such-compiler --fast\n" });
  const asks = text.replace("  stages:", "  analysis: { on_failure: true }\n  stages:");
  await createPipeline(world, "anl-asks", asks);
  const { id } = await runDeployment(world, "anl-asks", "v1");
  await vera.goto(`/o/acme/deployments/${id}`);
  const why = vera.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("run automatically", { timeout: 20_000 });
  await expect(why).toContainText("no-such-compiler");
  await expect(why.getByRole("button", { name: /pull request|Analyze|Deploy/ })).toHaveCount(0);
});

test("an analysis by a model can be previewed, and its response is rendered as text", async ({
  ada,
  world,
}) => {
  const evil = '<img src=x onerror="window.evil=1"> the compiler is missing';
  const model = await FakeModel.start({
    rootCause: evil,
    category: "command",
    confidence: "high",
    evidence: [
      { firstLine: 2, lastLine: 2 },
      { firstLine: 90, lastLine: 91 },
    ],
    advice: "Install the compiler.",
  });
  await withToken(world)("POST", "/ORG/secrets", { name: "MODEL_KEY", value: "sk-test-0123456789abcdef" });
  await ada.goto("/o/acme/settings/analysis");
  await ada.getByLabel("Analyzer").selectOption("Rules, then OpenAI or a compatible API");
  await ada.getByRole("textbox", { name: "Model" }).fill("harbour-1");
  await ada.getByLabel("Base URL").fill(model.url);
  await ada.getByLabel("API key").selectOption("MODEL_KEY");
  await ada.getByLabel("Token limit per 30 days").fill("5000");
  await expectAccessible(ada, "the settings of a model in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(ada, "the settings of a model in dark");
  await ada.screenshot({ path: "screenshots/analysis-model-dark.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "light" });
  await ada.getByRole("button", { name: "Save" }).click();
  await expect(ada.getByText("Applies to the next analysis")).toBeVisible();

  await createPipeline(
    world,
    "anl-model",
    buildDefinition("Model", { Build: "echo compiling\nfrobnicate\nexit 7\n" }),
  );
  const { id } = await runDeployment(world, "anl-model", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  const why = ada.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("sent to harbour-1");
  await why.getByRole("button", { name: "Preview request" }).click();
  const preview = ada.getByRole("dialog").getByRole("region", { name: "Request body" });
  await expect(preview).toContainText("frobnicate");
  await expectAccessible(ada, "the preview");
  expect(model.requests).toEqual([]);
  await ada.keyboard.press("Escape");

  await why.getByRole("button", { name: "Analyze failure" }).click();
  await expect(why).toContainText("Analyzed by AI (openai/harbour-1), 150 tokens", { timeout: 20_000 });
  await expect(why).toContainText("the compiler is missing");
  await why.getByRole("button", { name: "Show evidence" }).click();
  await expect(why).toContainText("Lines 90–91 (not in the log)");
  await expect(why.getByRole("link", { name: "Lines 90–91" })).toHaveCount(0);
  await why.getByText("Requests sent to the model").click();
  await expect(why.getByRole("region", { name: "Request 1" })).toContainText("frobnicate");
  expect(model.requests).toHaveLength(1);
  expect(await ada.evaluate(() => "evil" in window)).toBe(false);
  await ada.screenshot({ path: "screenshots/analysis-ai-light.png", fullPage: true });
  await withToken(world)("PUT", "/ORG/analysis-settings", { provider: "none" });
  model.stop();
});
