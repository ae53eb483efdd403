import { withToken } from "./harness/api";
import { Model } from "./harness/model";
import { Repository } from "./harness/repository";
import { definition, deployed, isOver, makePipeline, when } from "./harness/run";
import { expect, isAccessible, signedIn, test } from "./harness/test";
import type { World } from "./harness/world";

test.use({ parts: ["vera"] });

/** A deployment that fails because a script of its repository has lost its executable bit. */
async function lostBit(world: World, slug: string) {
  const repository = new Repository(world, slug);
  const run = 'for i in $(seq 1 400); do echo "preparing $i"; done\n./deploy.sh\n';
  const text = definition("Crane control", { Deploy: run }).replace("  stages:", "  tracks: main\n  stages:");
  repository.write(`.berth/${slug}/pipeline.yaml`, text).write("deploy.sh", "#!/bin/sh\necho hi\n");
  repository.commit("first");
  await withToken(world)("POST", "/ORG/repositories", { url: repository.path });
  const first = async () =>
    withToken(world)("GET", `/ORG/pipelines/${slug}/deployments`).then(
      found => found[0]?.id,
      () => undefined,
    );
  await expect.poll(first, { timeout: 20_000 }).toBeDefined();
  return { repository, deployment: await when(world, await first(), isOver) };
}

test("a failure is explained, its evidence leads into the log, and its fix becomes a branch", async ({
  ada,
  world,
}) => {
  const { repository, deployment } = await lostBit(world, "anl-bit");
  expect(deployment.status).toBe("failed");
  await ada.goto(`/o/acme/deployments/${deployment.id}`);
  const why = ada.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("Nothing leaves this server");
  await expect(why.getByRole("button", { name: "What would be sent" })).toHaveCount(0);

  // By keyboard alone.
  await why.getByRole("button", { name: "Find the cause" }).press("Enter");
  await expect(why).toContainText("without AI", { timeout: 20_000 });
  await expect(why).toContainText("deploy.sh");
  await expect(why).toContainText("What to do:");
  const evidence = why.getByRole("list", { name: "What shows it" });
  await expect(evidence).toContainText("Permission denied");
  const log = ada.getByRole("region", { name: "Log of Deploy" });
  await log.evaluate(element => element.scrollTo(0, 0));
  await evidence.getByRole("link", { name: "Line 401" }).press("Enter");
  await expect(ada).toHaveURL(/attempt=1&lines=L401/);
  await expect(ada.locator("[data-line='401'][data-chosen]")).toBeInViewport();
  await expect(log).toBeFocused();
  // Once more, after somebody scrolled away.
  await log.evaluate(element => element.scrollTo(0, 0));
  await expect(ada.locator("[data-line='401']")).toHaveCount(0);
  await evidence.getByRole("link", { name: "Line 401" }).click();
  await expect(ada.locator("[data-line='401'][data-chosen]")).toBeInViewport();

  const fix = why.getByRole("region", { name: "Suggested fix" });
  const diff = fix.getByRole("region", { name: "The suggested change" });
  await expect(diff).toContainText("old mode 100644");
  await expect(diff).toContainText("new mode 100755");
  await isAccessible(ada, "an analysis in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await isAccessible(ada, "an analysis in dark");
  await ada.screenshot({ path: "screenshots/analysis-dark.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "light" });
  await ada.screenshot({ path: "screenshots/analysis-light.png", fullPage: true });

  await fix.getByRole("button", { name: "Propose it as a pull request" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("a person does that");
  await isAccessible(ada, "the question about a pull request");
  await dialog.getByRole("button", { name: "Propose it" }).press("Enter");
  await expect(fix.locator("[data-pull=pushed]")).toContainText("berth/fix-", { timeout: 20_000 });
  const branch = (await fix.locator("[data-pull=pushed] code").textContent()) ?? "";
  expect(repository.git("ls-tree", branch, "deploy.sh")).toMatch(/^100755 /);
  await expect(fix.getByRole("button", { name: /Propose/ })).toHaveCount(0);
});

test("a pipeline may ask by itself, and somebody who only reads sees the answer", async ({
  context,
  world,
}) => {
  const vera = await signedIn(context, world, world.vera);
  const text = definition("Asks", { Build: "echo compiling\nno-such-compiler --fast\n" });
  const asks = text.replace("  stages:", "  analysis: { on_failure: true }\n  stages:");
  await makePipeline(world, "anl-asks", asks);
  const { id } = await deployed(world, "anl-asks", "v1");
  await vera.goto(`/o/acme/deployments/${id}`);
  const why = vera.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("asked by the pipeline", { timeout: 20_000 });
  await expect(why).toContainText("no-such-compiler");
  await expect(why.getByRole("button")).toHaveCount(0);
});

test("a model is chosen, what it would get is shown, and its words stay words", async ({ ada, world }) => {
  const evil = '<img src=x onerror="window.evil=1"> the compiler is missing';
  const model = await Model.start({
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
  await ada.getByLabel("Who is asked").selectOption("Rules, then OpenAI, or a server that speaks its API");
  await ada.getByRole("textbox", { name: "Model" }).fill("harbour-1");
  await ada.getByLabel("Address").fill(model.url);
  await ada.getByLabel("Secret with the key").selectOption("MODEL_KEY");
  await ada.getByLabel("Tokens in 30 days, at most").fill("5000");
  await isAccessible(ada, "the settings of a model in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await isAccessible(ada, "the settings of a model in dark");
  await ada.screenshot({ path: "screenshots/analysis-model-dark.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "light" });
  await ada.getByRole("button", { name: "Save" }).click();
  await expect(ada.getByText("It counts from the next failure on")).toBeVisible();

  await makePipeline(
    world,
    "anl-model",
    definition("Model", { Build: "echo compiling\nfrobnicate\nexit 7\n" }),
  );
  const { id } = await deployed(world, "anl-model", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  const why = ada.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("then harbour-1 is asked");
  await why.getByRole("button", { name: "What would be sent" }).click();
  const preview = ada.getByRole("dialog").getByRole("region", { name: "What would be sent" });
  await expect(preview).toContainText("frobnicate");
  await isAccessible(ada, "the preview");
  expect(model.asked).toEqual([]);
  await ada.keyboard.press("Escape");

  await why.getByRole("button", { name: "Find the cause" }).click();
  await expect(why).toContainText("AI answered: openai/harbour-1, for 150 tokens", { timeout: 20_000 });
  await expect(why).toContainText("the compiler is missing");
  await expect(why).toContainText("Lines 90–91, which the log does not have");
  await expect(why.getByRole("link", { name: "Lines 90–91" })).toHaveCount(0);
  await why.getByText("What was sent to the model").click();
  await expect(why.getByRole("region", { name: "Request 1" })).toContainText("frobnicate");
  expect(model.asked).toHaveLength(1);
  expect(await ada.evaluate(() => "evil" in window)).toBe(false);
  await ada.screenshot({ path: "screenshots/analysis-ai-light.png", fullPage: true });
  await withToken(world)("PUT", "/ORG/analysis-settings", { provider: "none" });
  model.stop();
});
