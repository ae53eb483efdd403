/** Pipelines: list, pause and definition. */
import { withToken } from "./harness/api";
import { buildDefinition, createPipeline, runDeployment } from "./harness/deployments";
import { expect, expectAccessible, test } from "./harness/test";

const MANY = 400;
const AT_ONCE = 10;

test("many pipelines can be scrolled and searched, also with the keyboard", async ({ ada, world }) => {
  test.setTimeout(120_000);
  const text = buildDefinition("Fleet", { Deploy: "true" });
  for (let from = 0; from < MANY; from += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, (_, at) => from + at);
    await Promise.all(
      some.map(at => createPipeline(world, `fleet-${at}`, text.replace("name: Fleet", `name: Fleet ${at}`))),
    );
  }
  await ada.goto("/o/acme/pipelines?search=fleet");
  await expect(ada.getByText(`${MANY} pipelines found`)).toBeVisible();
  expect(await ada.locator("[data-index]").count()).toBeLessThan(40);
  await ada.mouse.wheel(0, 20_000);
  await expect(ada.locator('[data-index="300"]')).toContainText(/Fleet \d+/);

  await ada.goto("/o/acme/pipelines");
  await expect(ada.locator('[data-index="0"]')).toBeVisible();
  await ada.keyboard.press("/");
  await ada.keyboard.type("fleet-39");
  await expect(ada.getByText("11 pipelines found")).toBeVisible();
  await expect(ada).toHaveURL(/search=fleet/);
  await ada.keyboard.press("ArrowDown");
  await expect(ada.locator('[data-index="0"] a')).toBeFocused();
  await ada.keyboard.press("ArrowDown");
  await expect(ada.locator('[data-index="1"] a')).toBeFocused();
  await ada.keyboard.press("Enter");
  await expect(ada.getByRole("heading", { level: 1, name: /^Fleet 39\d?$/ })).toBeVisible();

  // Pipeline selects search on the server.
  await ada.goto("/o/acme/events");
  await ada.getByRole("button", { name: "More filters" }).click();
  await ada.getByRole("combobox", { name: "Pipeline" }).fill("fleet 399");
  await ada.getByRole("option", { name: "Fleet 399" }).click();
  await expect(ada).toHaveURL(/pipeline=pl_/);
  await expect(ada.getByRole("list", { name: "Events" })).toContainText("fleet-399");
  await expectAccessible(ada, "events of one of many pipelines");
  await ada.keyboard.press("Escape");
  await ada.getByRole("button", { name: /^Search/ }).click();
  await ada.getByRole("textbox", { name: "Search", exact: true }).fill("fleet 398");
  await ada.getByRole("button", { name: /Fleet 398/ }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Fleet 398" })).toBeVisible();

  await ada.goto("/o/acme/pipelines?search=no-such-thing");
  await expect(ada.getByText("No matching pipelines")).toBeVisible();
});

test("a pipeline is paused with a reason and resumed", async ({ ada, world }) => {
  await createPipeline(world, "pipe-pause", buildDefinition("Pausable", { Deploy: "echo hello" }));
  await ada.goto("/o/acme/pipelines/pipe-pause");
  await ada.getByRole("button", { name: "Pause new deployments" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("freeze until Monday");
  await dialog.getByRole("button", { name: "Pause" }).click();
  await expect(ada.getByText("Paused by ada")).toBeVisible();
  await expect(ada.getByText("“freeze until Monday”")).toBeVisible();
  const { id } = await withToken(world)("POST", "/ORG/pipelines/pipe-pause/deployments", { commitId: "v1" });
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.locator("[data-waits-for=pipeline_stopped]")).toContainText("are paused");
  await ada.goto("/o/acme/pipelines?status=stopped");
  await expect(ada.getByRole("link", { name: /Pausable/ })).toBeVisible();
  await ada.getByRole("link", { name: /Pausable/ }).click();
  await ada.getByRole("button", { name: "Resume" }).click();
  await dialog.getByRole("button", { name: "Resume" }).click();
  await expect(ada.getByText("Paused by ada")).toHaveCount(0);
  await expect(ada.getByRole("link", { name: "#1" }).first()).toBeVisible();
  await expect(ada.getByText("succeeded", { exact: true }).first()).toBeVisible({ timeout: 20_000 });
});

test("a definition is edited: errors are shown, a valid change is saved", async ({ ada, world }) => {
  await createPipeline(world, "pipe-definition", buildDefinition("Definable", { Deploy: "echo hello" }));
  await ada.goto("/o/acme/pipelines/pipe-definition?tab=definition");
  const text = ada.getByRole("textbox", { name: "Definition" });
  await expect(text).toContainText("name: Definable");
  await expect(ada.getByText("No problems found")).toBeVisible();
  await expectAccessible(ada, "a definition");
  await ada.screenshot({ path: "screenshots/pipeline-definition-light.png" });
  await ada.getByRole("button", { name: "Edit" }).click();
  await text.locator(".cm-line").nth(2).click();
  await ada.keyboard.press("End");
  await ada.keyboard.type(" v2\n  stagez: []");
  await ada.getByRole("button", { name: "Save" }).click();
  await expect(ada.getByText(/Line 4: .*stagez/)).toBeVisible();
  await text.focus();
  await ada.keyboard.press("Control+z");
  await expect(text).not.toContainText("stagez");
  await expect(text).toContainText("name: Definable");
  await ada.keyboard.press("Control+y");
  await expect(text).toContainText("stagez");
  await ada.keyboard.press("Control+z");
  await ada.keyboard.type(" # fixed");
  await ada.getByRole("button", { name: "Save" }).click();
  await expect(ada.getByRole("button", { name: "Edit" })).toBeVisible();
});

test("deployments are filtered by environment and status", async ({ ada, world }) => {
  const environments = "  ephemeral_environments:\n    pond: {}\n";
  const text = buildDefinition("Filtered", { Deploy: '[ "$BERTH_COMMIT" != broken ]' });
  await createPipeline(world, "pipe-filter", text + environments);
  await runDeployment(world, "pipe-filter", "v1");
  await runDeployment(world, "pipe-filter", "broken");
  const sessions = "/ORG/pipelines/pipe-filter/ephemeral-environments/pond/sessions";
  await withToken(world)("POST", sessions, { commitId: "v2" });
  await ada.goto("/o/acme/pipelines/pipe-filter");
  const numbers = ada.getByRole("tabpanel").getByRole("link", { name: /#\d+$/ });
  await expect(numbers).toHaveText(["pond #1", "#2", "#1"]);
  await ada.getByLabel("Stage or environment").selectOption("production");
  await expect(numbers).toHaveText(["#2", "#1"]);
  await ada.getByLabel("Status").selectOption("failed");
  await expect(numbers).toHaveText(["#2"]);
  await expect(ada).toHaveURL(/target=production.*status=failed/);
  await expectAccessible(ada, "filtered deployments");
  await ada.getByLabel("Stage or environment").selectOption("pond");
  await expect(ada.getByText("No matching deployments")).toBeVisible();
  await ada.getByRole("button", { name: "Clear filters" }).click();
  await expect(numbers).toHaveCount(3);
});
