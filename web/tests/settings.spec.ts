import { FIRST_PIPELINE } from "../src/pages/welcome/snippets";
import { withToken } from "./harness/api";
import { expect, isAccessible, test } from "./harness/test";

test.use({ parts: ["grace", "checkout", "warehouse", "secret"] });

test("a token is made, copied, used and revoked", async ({ ada, world }) => {
  const pipelines = `${world.base}/api/v1/organizations/acme/pipelines`;
  await ada.goto("/o/acme/settings/tokens");
  await ada.getByRole("button", { name: "Create a token" }).click();
  await ada.getByRole("dialog").getByLabel("Name").fill("my laptop");
  await ada.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = (await ada.getByLabel("The new token", { exact: true }).textContent()) ?? "";
  expect(token).toMatch(/^berth_api_/);
  await isAccessible(ada, "the new token");

  const headers = { Authorization: `Bearer ${token}` };
  const used = await fetch(pipelines, { headers });
  expect(used.status).toBe(200);

  await ada.getByRole("button", { name: "I have it" }).click();
  await expect(ada.locator("body")).not.toContainText(token);
  await ada.getByRole("button", { name: "Revoke my laptop" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect(ada.getByRole("cell", { name: "my laptop" })).toHaveCount(0);
  expect((await fetch(pipelines, { headers })).status).toBe(401);
});

test("a secret goes in and never comes out", async ({ ada }) => {
  const value = "correct-horse-battery-staple";
  await ada.goto("/o/acme/settings/secrets");
  await ada.getByRole("button", { name: "Create a secret" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Name").fill("DATABASE_URL");
  await dialog.getByRole("textbox", { name: "Value" }).fill(value);
  await dialog.getByRole("combobox", { name: "Who may use it" }).fill("check");
  await ada.getByRole("option", { name: "Checkout", exact: true }).click();
  await dialog.getByLabel("Where").selectOption("production");
  await dialog.getByRole("button", { name: "Create" }).click();
  const row = ada.getByRole("row", { name: /DATABASE_URL/ });
  await expect(row).toContainText("Checkout → production");
  await expect(row).toContainText("version 1");

  await ada.getByRole("button", { name: "New value of DATABASE_URL" }).click();
  await dialog.getByRole("textbox", { name: "Value" }).fill(`${value}-2`);
  await dialog.getByRole("button", { name: "Keep it" }).click();
  await expect(row).toContainText("version 2");
  expect(await ada.content()).not.toContain(value);
});

test("a member gets a first password, once", async ({ ada }) => {
  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("button", { name: "Add a member" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Email").fill("mae@acme.test");
  await dialog.getByLabel("Name").fill("Mae");
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(ada.getByLabel("The first password")).not.toBeEmpty();
  await ada.getByRole("button", { name: "Done" }).click();
  await ada.getByLabel("Role of Mae").selectOption("viewer");
  await expect(ada.getByText("Mae is viewer now.")).toBeVisible();
});

test("a webhook shows its secret once and its deliveries", async ({ ada, world }) => {
  await ada.clock.install();
  await ada.goto("/o/acme/settings/webhooks");
  await ada.getByRole("button", { name: "Create a webhook" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ops");
  await dialog.getByLabel("Address").fill("https://hooks.invalid/berth");
  await dialog.getByLabel("Environment claimed").check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(ada.getByLabel("The webhook's secret")).toContainText("whsec_");
  await ada.getByRole("button", { name: "I have it" }).click();
  await ada.getByRole("link", { name: "ops" }).click();
  const api = withToken(world);
  const held = await api("POST", "/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions", {});
  const [{ id }] = await api("GET", "/ORG/webhooks");
  await expect
    .poll(() => api("GET", `/ORG/webhooks/${id}/deliveries`), { intervals: [100] })
    .not.toHaveLength(0);
  // The page asks again every five seconds.
  await ada.clock.fastForward(5_000);
  await expect(ada.getByRole("region", { name: "Deliveries" })).toContainText("session claimed");
  await api("DELETE", `/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions/${held.id}`);
  await isAccessible(ada, "a webhook");
});

test("a webhook gets another secret, and is told of other things", async ({ ada, world }) => {
  const api = withToken(world);
  const made = await api("POST", "/ORG/webhooks", {
    name: "rotates",
    url: "https://hooks.invalid/berth",
    kinds: ["deployment_failed", "token_created"],
  });
  await ada.goto(`/o/acme/settings/webhooks/${made.id}`);
  await ada.getByRole("button", { name: "New secret" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await isAccessible(ada, "the question about a new secret");
  await dialog.getByRole("button", { name: "Make a new secret" }).press("Enter");
  const secret = (await ada.getByLabel("The webhook's secret").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  expect(secret).not.toBe(made.secret);
  await dialog.getByRole("button", { name: "I have it" }).click();
  await expect(ada.getByText("Signed with its old secret too")).toBeVisible();
  expect(await ada.content()).not.toContain(secret);

  await ada.getByRole("button", { name: "Change", exact: true }).press("Enter");
  await dialog.getByLabel("Environment taken over").check();
  await dialog.getByLabel("Deployment failed").uncheck();
  await dialog.getByLabel("Another kind").selectOption("secret created");
  await isAccessible(ada, "changing a webhook");
  await dialog.getByRole("button", { name: "Change it" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(ada.getByRole("main")).toContainText("Environment taken over");
  const { kinds } = await api("GET", `/ORG/webhooks/${made.id}`);
  // What was set by API alone stays.
  expect([...kinds].sort()).toEqual(["secret_created", "session_overridden", "token_created"]);
});

test("a runner gets a token once, waits for its machine, and is removed", async ({ ada, world }) => {
  await ada.goto("/o/acme/settings/runners");
  await expect(ada.getByRole("main")).toContainText("Steps run on the server's own machine");
  await expect(ada.getByRole("article").first()).toContainText("online");
  await expect(ada.getByRole("article").first()).toContainText(
    /Steps are (isolated by bubblewrap|restricted by Landlock|not isolated)/,
  );
  await ada.getByRole("button", { name: "Add a runner" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog.getByLabel("Name")).toBeFocused();
  await isAccessible(ada, "the question about a runner");
  await ada.keyboard.type("build-1");
  await ada.keyboard.press("Enter");
  const command = (await ada.getByLabel("The command").textContent()) ?? "";
  expect(command).toMatch(
    new RegExp(`^BERTH_RUNNER_TOKEN=berth_\\S+ berth runner --server ${world.base}$`, "m"),
  );
  await isAccessible(ada, "a runner's token");
  await dialog.getByRole("button", { name: "I have it" }).press("Enter");
  const runner = ada.getByRole("article", { name: "build-1" });
  await expect(runner).toContainText("not registered yet");
  await expect(runner).toContainText("Its token was not used yet");
  const token = /berth_\w+/.exec(command)?.[0] ?? "";
  expect(token).not.toBe("");
  expect(await ada.content()).not.toContain(token);
  await isAccessible(ada, "runners in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await isAccessible(ada, "runners in dark");
  await ada.getByRole("button", { name: "Remove build-1" }).press("Enter");
  await dialog.getByRole("button", { name: "Remove" }).press("Enter");
  await expect(runner).toHaveCount(0);
  expect(await withToken(world)("GET", "/ORG/runners")).toHaveLength(1);
});

test("what newcomers copy is a valid pipeline", async ({ world }) => {
  const answer = await withToken(world)("POST", "/ORG/pipelines/validate", { definition: FIRST_PIPELINE });
  expect(answer).toMatchObject({ valid: true, diagnostics: [] });
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 } });

  for (const [page, action, fact] of [
    ["members", "Remove Grace Hopper", "Member since"],
    ["secrets", "Delete DEPLOY_KEY", "Used by"],
    ["tokens", /^Revoke /, "Last used"],
  ] as const) {
    test(`${page} are read without scrolling sideways`, async ({ ada }) => {
      await ada.goto(`/o/acme/settings/${page}`);
      const table = ada.getByRole("table");
      await expect(table.getByRole("button", { name: action }).first()).toBeInViewport({ ratio: 1 });
      const room = await table.evaluate(it => [it.getBoundingClientRect().right, innerWidth, it.scrollWidth]);
      expect(room[0]).toBeLessThanOrEqual(room[1] ?? 0);
      expect(room[2]).toBeLessThanOrEqual(room[1] ?? 0);
      const cell = table.locator(`[data-of="${fact}"]`).first();
      const said = await cell.evaluate(it => getComputedStyle(it, "::before").content);
      expect(said).toBe(`"${fact}"`);
      await isAccessible(ada, `${page} on a phone`);
    });
  }
});
