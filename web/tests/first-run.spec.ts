/** First run: from an organization without pipelines of its own to a running deployment, in the dashboard alone. */
import { readdirSync, readFileSync } from "node:fs";
import { withToken } from "./harness/api";
import { Repository } from "./harness/repository";
import { expect, expectAccessible, test } from "./harness/test";

const TEMPLATES = "src/ui/setup/templates";

test("the server accepts every template", async ({ world }) => {
  const api = withToken(world);
  const files = readdirSync(TEMPLATES);
  expect(files.length).toBeGreaterThanOrEqual(4);
  for (const file of files) {
    const definition = readFileSync(`${TEMPLATES}/${file}`, "utf8");
    const checked = await api("POST", "/ORG/pipelines/validate", { definition });
    // Only the secrets are missing.
    const problems = checked.diagnostics.filter(({ code }: { code: string }) => code !== "missing_secret");
    expect({ file, valid: checked.valid, problems }).toEqual({ file, valid: true, problems: [] });
    const plan = await api("POST", "/ORG/pipelines/plan", { definition });
    expect(plan.obstacles).toEqual([]);
  }
});

test("the example shows its plan and opens its running deployment", async ({ ada, world }) => {
  const before = await withToken(world)("GET", "/ORG/deployments");
  for (const colorScheme of ["light", "dark"] as const) {
    await ada.emulateMedia({ colorScheme });
    await ada.goto("/o/acme/welcome");
    const plan = ada.getByRole("region", { name: "Plan" });
    await expect(plan.getByRole("heading")).toHaveText(["staging", "production"]);
    await expect(plan).toContainText("Deploy");
    await ada.screenshot({ path: `screenshots/first-run-${colorScheme}.png`, fullPage: true });
    await expectAccessible(ada, `the first run in ${colorScheme}`);
  }
  // A plan deploys nothing.
  expect(await withToken(world)("GET", "/ORG/deployments")).toHaveLength(before.length);

  await ada.getByRole("button", { name: "Deploy the example" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Example #1" })).toBeVisible();
  await expect(ada.getByText("deploying v1").first()).toBeVisible({ timeout: 20_000 });
  await expect(ada.locator("[data-waits-for=approval]")).toContainText("Production needs an approval");
});

test("an edited definition shows its errors before anything is committed", async ({ ada }) => {
  await ada.goto("/o/acme/welcome");
  await ada.getByText("Use your repository").click();
  await ada.getByLabel("Template").selectOption("Docker Compose");
  const plan = ada.getByRole("region", { name: "Plan" });
  await expect(plan).toContainText("there is no secret DEPLOY_SSH_KEY yet");
  await expect(ada.getByRole("main")).toContainText(".berth/app/pipeline.yaml");
  const definition = ada.getByLabel("Definition");
  await definition.fill((await definition.inputValue()).replace("tracks:", "track:"));
  await expect(plan.getByRole("alert")).toContainText("The definition is not valid");
  await expect(plan).toContainText("did you mean");
  await expectAccessible(ada, "an invalid definition");
});

test("adding a repository opens the deployment that it starts", async ({ ada, world }) => {
  await ada.goto("/o/acme/welcome");
  await ada.getByText("Use your repository").click();
  await ada.getByLabel("Pipeline slug").fill("run-first");
  const text = await ada.getByLabel("Definition").inputValue();
  const repository = new Repository(world, "run-first");
  repository.write(".berth/run-first/pipeline.yaml", text);
  repository.commit("Add pipeline");
  await ada.getByRole("button", { name: "Add repository" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("URL").fill(repository.path);
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(ada).toHaveURL(/\/deployments\/dep_/, { timeout: 30_000 });
  await expect(ada.getByRole("heading", { level: 1, name: "Shop #1" })).toBeVisible();
});

test("a repository without pipelines says what to do", async ({ ada, world }) => {
  const repository = new Repository(world, "run-empty").write("README.md", "nothing here");
  repository.commit("first");
  await ada.goto("/o/acme/settings/repositories");
  await ada.getByRole("button", { name: "Add repository" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("URL").fill(repository.path);
  await dialog.getByRole("button", { name: "Add" }).click();
  const found = ada.getByRole("region", { name: "Pipelines" });
  await expect(found).toContainText("No pipelines found", { timeout: 20_000 });
  await expect(found).toContainText(".berth/<slug>/pipeline.yaml");
  await expect(found.getByRole("link", { name: "Choose a template" })).toBeVisible();
  await expectAccessible(ada, "a repository without pipelines");

  // One that cannot be used is named with its line.
  repository.write(".berth/run-empty/pipeline.yaml", "version: 1\npipeline:\n  name: X\n  track: main\n");
  repository.commit("Add pipeline");
  await ada.getByRole("button", { name: "Sync now" }).click();
  await expect(found).toContainText(/Line \d+:/, { timeout: 20_000 });
  await expect(found).not.toContainText("No pipelines found");
});
