import { withToken } from "./harness/api";
import { createPipeline, isFinished, startDeployment, waitForStatus } from "./harness/deployments";
import { Latch } from "./harness/latch";
import { createRegistry } from "./harness/registry";
import { expect, expectAccessible, test } from "./harness/test";

const EVIL = '<img src=x onerror="window.evil=1">';

const SCHEMA = {
  type: "object",
  required: ["target", "replicas"],
  properties: {
    target: { type: "string", enum: ["eu-1", "us-1"], description: "where it goes" },
    replicas: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    note: { type: "string", description: EVIL },
  },
};

const STEP = {
  stepType: "CUSTOM:DEPLOY",
  name: "Deploy to a port",
  shortDescription: "Takes what was built into a port.",
  longDescription: `Asks the port first. ${EVIL}`,
  yamlExample: "type: CUSTOM:DEPLOY",
  paramsJsonSchema: SCHEMA,
};
const CALL = `echo "called with $input"; echo '{"status": "SUCCESS"}' > "$output"`;

test("a step registry is added, built and used with the YAML from its page", async ({ ada, world }) => {
  test.setTimeout(120_000);
  const latch = new Latch(world, "steps");
  const build = `echo fetching
while ${latch.isHeld}; do sleep 0.1; done
printf '\\033[32mbuilt\\033[0m one step\\n'`;
  const repository = createRegistry(world, "steps", [STEP], CALL, build);
  await ada.goto("/o/acme/settings/custom-steps");
  await expect(ada.getByLabel("Commands")).toContainText("berth registry new");
  await expectAccessible(ada, "no custom steps");

  // With the keyboard only.
  await ada.getByRole("button", { name: "Add custom steps" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog.getByLabel("Name")).toBeFocused();
  await ada.keyboard.type("Tools!");
  await ada.keyboard.press("Tab");
  await expect(dialog).toContainText("Use lower-case letters, digits and hyphens");
  await ada.keyboard.type(repository.path);
  await dialog.getByLabel("Name").fill("tools");
  await expectAccessible(ada, "the dialog for custom steps");
  await dialog.getByLabel("Name").press("Enter");

  await expect(ada.getByRole("heading", { level: 1, name: "tools" })).toBeVisible();
  const builds = ada.getByRole("region", { name: "Builds" });
  await expect(builds).toContainText("building");
  await expect(ada.getByRole("region", { name: "Output of build 1" })).toContainText("fetching");
  // The page updates without a reload.
  latch.release();
  const step = ada.getByRole("article", { name: "tools/deploy" });
  await expect(step).toBeVisible({ timeout: 30_000 });
  await expect(ada.getByRole("main").getByRole("status").first()).toContainText("ready");
  await expect(builds).toContainText("succeeded");
  await expect(step).toContainText("Deploy to a port");
  await expect(step.getByRole("row", { name: /target/ })).toContainText("eu-1 | us-1");
  await expect(step.getByRole("row", { name: /replicas/ })).toContainText("default 3; minimum 1; maximum 9");
  await expect(step).toContainText(EVIL);
  expect(await ada.evaluate(() => "evil" in window)).toBe(false);
  await expectAccessible(ada, "custom steps in light");
  await ada.screenshot({ path: "screenshots/registry-light.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(ada, "custom steps in dark");
  await ada.screenshot({ path: "screenshots/registry-dark.png", fullPage: true });
  await ada.setViewportSize({ width: 390, height: 844 });
  const overflow = await ada.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(overflow).toBeLessThanOrEqual(0);
  await ada.screenshot({ path: "screenshots/registry-phone.png", fullPage: true });
  await ada.emulateMedia({ colorScheme: "light" });
  await ada.setViewportSize({ width: 1280, height: 900 });

  const yaml = (await step.getByLabel("YAML of tools/deploy").textContent()) ?? "";
  const indented = yaml.trimEnd().replaceAll("\n", "\n    ");
  const stages = "version: 1\npipeline:\n  name: Custom\n  stages: [{ name: production }]\n  steps:\n";
  await createPipeline(world, "custom", `${stages}    ${indented}\n`);
  const { id } = await startDeployment(world, "custom", "v1");
  expect((await waitForStatus(world, id, isFinished)).status).toBe("succeeded");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.getByRole("region", { name: "Log of Deploy to a port" })).toContainText('"target":"eu-1"');
});

test("a failed build shows its error and keeps the previous version; removal lists the pipelines affected", async ({
  ada,
  world,
}) => {
  test.setTimeout(120_000);
  const repository = createRegistry(world, "more-steps", [STEP], CALL);
  const api = withToken(world);
  await api("POST", "/ORG/step-registries", { name: "more", url: repository.path });
  const status = async () => (await api("GET", "/ORG/step-registries/more")).status;
  await expect.poll(status, { timeout: 30_000 }).toBe("ready");
  const definition = `version: 1
pipeline:
  name: More
  stages: [{ name: production }]
  steps: [{ name: Deploy, type: more/deploy, params: { target: eu-1, replicas: 2 } }]
`;
  await createPipeline(world, "more", definition);

  repository.write("build.sh", 'echo "npm ERR! no such package" >&2; exit 1\n').commit("broken");
  await ada.goto("/o/acme/settings/custom-steps");
  await ada.getByRole("link", { name: "more" }).press("Enter");
  await ada.getByRole("button", { name: "Sync now" }).press("Enter");
  await expect(ada.getByRole("main").getByRole("alert")).toContainText(
    "The newest commit could not be built",
    {
      timeout: 30_000,
    },
  );
  await expect(ada.getByRole("main").getByRole("alert")).toContainText(
    "Pipelines keep using the version below",
  );
  await expect(ada.getByRole("region", { name: "Output of build 2" })).toContainText("no such package");
  await expect(ada.getByRole("article", { name: "more/deploy" })).toContainText("Used by more");
  await expectAccessible(ada, "custom steps whose build failed");
  await ada.screenshot({ path: "screenshots/registry-failed-light.png", fullPage: true });
  await ada.getByRole("button", { name: "Rebuild" }).click();
  await expect(ada.getByRole("button", { name: "Log of build 3" })).toBeVisible({ timeout: 30_000 });

  await ada.getByRole("button", { name: "Remove" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText("These pipelines use its steps");
  await expect(dialog.getByRole("listitem")).toHaveText(["more"]);
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(dialog.getByRole("alert")).toBeVisible();
  await dialog.getByLabel("Remove it anyway").check();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Custom steps" })).toBeVisible();
  await expect(ada.getByRole("article", { name: "more", exact: true })).toHaveCount(0);
});
