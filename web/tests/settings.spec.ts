import { FIRST_PIPELINE, FIRST_PIPELINE_PATH } from "../src/ui/snippets";
import { withToken } from "./harness/api";
import { Repository } from "./harness/repository";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test.use({ parts: ["grace", "checkout", "warehouse", "secret"] });

test("API tokens are under Organization Settings, then API Tokens", async ({ ada }) => {
  await ada.goto("/o/acme");
  await ada
    .getByRole("navigation", { name: "Main" })
    .getByRole("link", { name: "Organization Settings" })
    .click();
  await ada.getByRole("navigation", { name: "Settings" }).getByRole("link", { name: "API Tokens" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "API Tokens" })).toBeVisible();
});

test("an admin changes the organization's name and the default network of steps", async ({
  ada,
  browser,
  world,
}) => {
  const ask = withToken(world);
  const before = await ask("GET", "/ORG");
  await ada.goto("/o/acme/settings/general");
  const network = ada.getByLabel("Default network of steps");
  const save = ada.getByRole("button", { name: "Save" });
  await expect(network).toHaveValue("host");
  await expect(save).toBeDisabled();
  await network.selectOption("none");
  await ada.getByLabel("Name").fill("Acme Harbour");
  await save.click();
  await expect(ada.getByText("Saved", { exact: true })).toBeVisible();
  await expect(ada.getByRole("button", { name: /Acme Harbour/ })).toBeVisible();
  expect(await ask("GET", "/ORG")).toMatchObject({ name: "Acme Harbour", defaultNetwork: "none" });

  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto("/o/acme/settings/general");
  await expect(grace.getByLabel("Default network of steps")).toHaveValue("none");
  await expect(grace.getByLabel("Default network of steps")).toBeDisabled();
  await expect(grace.getByRole("button", { name: "Save" })).toHaveCount(0);

  await ada.getByLabel("Name").fill(" ");
  await save.click();
  await expect(ada.getByText("Enter a name")).toBeVisible();
  await ask("PATCH", "/ORG", { name: before.name, defaultNetwork: before.defaultNetwork });
  await expect(network).toHaveValue("host");
});

test("a token is created, used and revoked", async ({ ada, world }) => {
  const pipelines = `${world.server}/api/v1/organizations/acme/pipelines`;
  await ada.goto("/o/acme/settings/tokens");
  await ada.getByRole("button", { name: "Create token" }).click();
  await ada.getByRole("dialog").getByLabel("Name").fill("my laptop");
  await ada.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = (await ada.getByLabel("API token", { exact: true }).textContent()) ?? "";
  expect(token).toMatch(/^berth_api_/);
  await expectAccessible(ada, "the new token");

  const headers = { Authorization: `Bearer ${token}` };
  const used = await fetch(pipelines, { headers });
  expect(used.status).toBe(200);

  await ada.getByRole("button", { name: "Done" }).click();
  await expect(ada.locator("body")).not.toContainText(token);
  await ada.getByRole("button", { name: "Revoke my laptop" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect(ada.getByRole("cell", { name: "my laptop" })).toHaveCount(0);
  expect((await fetch(pipelines, { headers })).status).toBe(401);
});

test("a secret is created and updated, and its value is never shown", async ({ ada }) => {
  const value = "correct-horse-battery-staple";
  await ada.goto("/o/acme/settings/secrets");
  await ada.getByRole("button", { name: "Create secret" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Name").fill("DATABASE_URL");
  await dialog.getByRole("textbox", { name: "Value" }).fill(value);
  await dialog.getByRole("combobox", { name: "Scope" }).fill("check");
  await ada.getByRole("option", { name: "Checkout", exact: true }).click();
  await dialog.getByLabel("Stage or environment").selectOption("production");
  await dialog.getByRole("button", { name: "Create" }).click();
  const row = ada.getByRole("row", { name: /DATABASE_URL/ });
  await expect(row).toContainText("Checkout → production");
  await expect(row).toContainText("1, updated");

  await ada.getByRole("button", { name: "Update DATABASE_URL" }).click();
  await dialog.getByRole("textbox", { name: "Value" }).fill(`${value}-2`);
  await dialog.getByRole("button", { name: "Update" }).click();
  await expect(row).toContainText("2, updated");
  expect(await ada.content()).not.toContain(value);
});

test("a service account is added, and its role changes after confirmation", async ({ ada }) => {
  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("button", { name: "Add service account" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Email").fill("robot@acme.test");
  await dialog.getByLabel("Name").fill("Robot");
  await expectAccessible(ada, "the dialog for a service account");
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(dialog).toContainText("Create an API token for it");
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(ada.getByRole("row", { name: /Robot/ })).toContainText("service account");

  const role = ada.getByLabel("Role of Robot");
  await role.selectOption("viewer");
  await expect(dialog).toContainText("change nothing");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(role).toHaveValue("deployer");
  await role.selectOption("viewer");
  await dialog.getByRole("button", { name: "Change role" }).click();
  await expect(ada.getByText("Role of Robot changed to viewer")).toBeVisible();
  await expect(role).toHaveValue("viewer");
});

test("a request that requires reauthentication is repeated after the password is confirmed", async ({
  ada,
  world,
  fileServer,
}) => {
  fileServer.ageLogins();
  await ada.goto("/o/acme/settings/tokens");
  await ada.getByRole("button", { name: "Create token" }).click();
  const dialog = ada.getByRole("dialog", { name: "Create token" });
  await dialog.getByLabel("Name").fill("after an hour");
  await dialog.getByRole("button", { name: "Create" }).click();

  const prompt = ada.getByRole("dialog", { name: "Confirm your password" });
  const password = prompt.getByRole("textbox", { name: "Password" });
  await expect(password).toBeFocused();
  await expectAccessible(ada, "the dialog to confirm the password");
  await ada.keyboard.press("Escape");
  await expect(prompt).toHaveCount(0);
  await expect(dialog.getByRole("alert")).toContainText("password");
  await expect(dialog.getByLabel("Name")).toHaveValue("after an hour");

  await dialog.getByRole("button", { name: "Create" }).click();
  await password.fill("not the password");
  await ada.keyboard.press("Enter");
  await expect(prompt).toContainText("Wrong password");
  await password.fill(world.ada.password);
  await ada.screenshot({ path: "screenshots/confirm-password.png" });
  await ada.keyboard.press("Enter");
  await expect(ada.getByLabel("API token", { exact: true })).toContainText("berth_api_");
  await expect(prompt).toHaveCount(0);
});

test("a new webhook shows its secret once and its deliveries", async ({ ada, world }) => {
  await ada.clock.install();
  await ada.goto("/o/acme/settings/webhooks");
  await ada.getByRole("button", { name: "Create webhook" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ops");
  await dialog.getByLabel("URL").fill("https://hooks.invalid/berth");
  await dialog.getByLabel("Environment claimed").check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(ada.getByLabel("Signing secret")).toContainText("whsec_");
  await ada.getByRole("button", { name: "Done" }).click();
  await ada.getByRole("link", { name: "ops" }).click();
  const api = withToken(world);
  const held = await api("POST", "/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions", {});
  const [{ id }] = await api("GET", "/ORG/webhooks");
  await expect
    .poll(() => api("GET", `/ORG/webhooks/${id}/deliveries`), { intervals: [100] })
    .not.toHaveLength(0);
  // The page polls every five seconds.
  await ada.clock.fastForward(5_000);
  await expect(ada.getByRole("region", { name: "Deliveries" })).toContainText("Environment claimed");
  await ada.getByRole("button", { name: /^Details of Environment claimed/ }).click();
  const request = ada.getByRole("region", { name: "Request" });
  await expect(request).toContainText("POST https://hooks.invalid/berth");
  await expect(request.getByLabel("Event", { exact: true })).toContainText('"kind": "session_claimed"');
  await expect(ada.getByRole("region", { name: "Responses" })).toContainText(/not their bodies/);
  await api("DELETE", `/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions/${held.id}`);
  await expectAccessible(ada, "a webhook");
});

test("the secret of a webhook is rotated and its events are edited", async ({ ada, world }) => {
  const api = withToken(world);
  const made = await api("POST", "/ORG/webhooks", {
    name: "rotates",
    url: "https://hooks.invalid/berth",
    kinds: ["deployment_failed", "token_created"],
  });
  await ada.goto(`/o/acme/settings/webhooks/${made.id}`);
  await ada.getByRole("button", { name: "Rotate secret" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expectAccessible(ada, "the dialog to rotate a secret");
  await dialog.getByRole("button", { name: "Rotate secret" }).press("Enter");
  const secret = (await ada.getByLabel("Signing secret").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  expect(secret).not.toBe(made.secret);
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(ada.getByText("also signed with the previous secret")).toBeVisible();
  expect(await ada.content()).not.toContain(secret);

  await ada.getByRole("button", { name: "Edit", exact: true }).press("Enter");
  await dialog.getByLabel("Environment taken over").check();
  await dialog.getByLabel("Deployment failed").uncheck();
  await dialog.getByLabel("More events").selectOption("secret_created");
  await expectAccessible(ada, "changing a webhook");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(ada.getByRole("main")).toContainText("Environment taken over");
  const { kinds } = await api("GET", `/ORG/webhooks/${made.id}`);
  // Events that were set with the API are kept.
  expect([...kinds].sort()).toEqual(["secret_created", "session_overridden", "token_created"]);

  await ada.getByRole("button", { name: "Disable", exact: true }).click();
  await expect(dialog).toContainText("pending deliveries are discarded");
  await dialog.getByRole("button", { name: "Disable webhook" }).click();
  await ada.getByRole("button", { name: "Enable", exact: true }).click();
  await expect(ada.getByRole("button", { name: "Disable", exact: true })).toBeVisible();
});

test("a runner is added with a one-time token and removed", async ({ ada, world }) => {
  await ada.goto("/o/acme/settings/runners");
  await expect(ada.getByRole("main")).toContainText("Steps run on the server’s machine");
  await expect(ada.getByRole("article").first()).toContainText("online");
  await expect(ada.getByRole("article").first()).toContainText(
    /Steps are (isolated by bubblewrap|restricted by Landlock|not isolated)/,
  );
  await ada.getByRole("button", { name: "Add runner" }).press("Enter");
  const dialog = ada.getByRole("dialog");
  await expect(dialog.getByLabel("Name")).toBeFocused();
  await expectAccessible(ada, "the dialog to add a runner");
  await ada.keyboard.type("build-1");
  await ada.keyboard.press("Enter");
  const command = (await ada.getByLabel("Command", { exact: true }).textContent()) ?? "";
  expect(command).toMatch(
    new RegExp(`^BERTH_RUNNER_TOKEN=berth_\\S+ berth runner --server ${world.server}$`, "m"),
  );
  await expectAccessible(ada, "a runner's token");
  await dialog.getByRole("button", { name: "Done" }).press("Enter");
  const runner = ada.getByRole("article", { name: "build-1" });
  await expect(runner).toContainText("not registered yet");
  await expect(runner).toContainText("Registration token not used yet");
  const token = /berth_\w+/.exec(command)?.[0] ?? "";
  expect(token).not.toBe("");
  expect(await ada.content()).not.toContain(token);
  await expectAccessible(ada, "runners in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(ada, "runners in dark");
  await ada.getByRole("button", { name: "Remove build-1" }).press("Enter");
  await dialog.getByRole("button", { name: "Remove" }).press("Enter");
  await expect(runner).toHaveCount(0);
  expect(await withToken(world)("GET", "/ORG/runners")).toHaveLength(1);
});

test("the example pipeline, saved as instructed, is valid and succeeds in its first stage", async ({
  world,
}) => {
  const api = withToken(world);
  const answer = await api("POST", "/ORG/pipelines/validate", { definition: FIRST_PIPELINE });
  expect(answer).toMatchObject({ valid: true, diagnostics: [] });
  // The server of the tests already has a pipeline "shop".
  const path = FIRST_PIPELINE_PATH.replace("shop", "first");
  const repository = new Repository(world, "first").write(path, FIRST_PIPELINE);
  repository.commit("Add pipeline");
  await api("POST", "/ORG/repositories", { url: repository.path });
  const staging = async () => {
    const [deployment] = await api("GET", "/ORG/deployments?limit=1");
    return deployment?.stages.find((stage: { name: string }) => stage.name === "staging")?.status;
  };
  await expect.poll(staging, { timeout: 30_000 }).toBe("succeeded");
});

test("the settings are listed at the left of every settings page", async ({ ada }) => {
  await ada.setViewportSize({ width: 1024, height: 900 });
  await ada.goto("/o/acme/settings/secrets");
  const links = ada.getByRole("navigation", { name: "Settings" }).getByRole("link");
  await expect(links).toHaveCount(11);
  await expect(links.filter({ hasText: "Secrets" })).toHaveAttribute("aria-current", "page");
  const right = await links.evaluateAll(all => Math.max(...all.map(it => it.getBoundingClientRect().right)));
  const heading = ada.getByRole("heading", { level: 1, name: "Secrets" });
  expect(await heading.evaluate(it => it.getBoundingClientRect().left)).toBeGreaterThan(right);
});

test("an instance admin changes the slug on the general page", async ({ ada }) => {
  await ada.goto("/o/acme/settings/general");
  const section = ada.getByRole("region", { name: "Slug and deletion" });
  const dialog = ada.getByRole("dialog");
  await section.getByRole("button", { name: "Delete organization" }).click();
  await expect(dialog).toContainText("This cannot be undone");
  await expect(dialog.getByRole("button", { name: "Delete organization" })).toBeDisabled();
  await expectAccessible(ada, "the dialog to delete an organization");
  await dialog.getByRole("button", { name: "Cancel" }).click();

  await section.getByRole("button", { name: "Change slug" }).click();
  await dialog.getByLabel("Slug").fill("apex");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(ada).toHaveURL(/\/o\/apex\/settings\/general/);
  await expect(section).toContainText("apex");
  await section.getByRole("button", { name: "Change slug" }).click();
  await dialog.getByLabel("Slug").fill("acme");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(ada).toHaveURL(/\/o\/acme\/settings\/general/);
});

test("the profile is inside the shell and sets the theme", async ({ ada }) => {
  await ada.goto("/profile");
  await expect(ada).toHaveURL(/\/o\/acme\/profile/);
  await expect(ada.getByRole("heading", { level: 1, name: "Your profile" })).toBeVisible();
  await expect(ada.getByRole("navigation", { name: "Main" })).toBeVisible();
  await expect(ada.getByRole("region", { name: "Active logins" })).toContainText("this browser");
  const theme = ada.getByRole("radiogroup", { name: "Theme" });
  await theme.getByText("Dark").click();
  await expect(ada.locator("html")).toHaveAttribute("data-mantine-color-scheme", "dark");
  await expectAccessible(ada, "the profile in dark");
  await ada.reload();
  await expect(theme.getByRole("radio", { name: "Dark" })).toBeChecked();
  await theme.getByText("System").click();
  await expect(ada.locator("html")).toHaveAttribute("data-mantine-color-scheme", "light");
});

test("unknown pages keep the navigation", async ({ ada }) => {
  for (const path of [
    "/o/acme/nope",
    "/o/acme/settings/nope",
    "/o/acme/deployments/dep_01m7rq761zfd5vt4nwqjctw21a",
  ]) {
    await ada.goto(path);
    await expect(
      ada
        .getByRole("main")
        .getByText(/not found/i)
        .first(),
    ).toBeVisible();
    await expect(ada.getByRole("navigation", { name: "Main" })).toBeVisible();
    await ada.getByRole("main").getByRole("link", { name: "Go to Home" }).click();
    await expect(ada.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
  }
});

test.describe("on a phone", () => {
  test.use({ viewport: { width: 390, height: 844 } });

  for (const [page, action, fact] of [
    ["members", "Remove Grace Hopper", "Joined"],
    ["secrets", "Delete DEPLOY_KEY", "Used by"],
    ["tokens", /^Revoke /, "Last used"],
  ] as const) {
    test(`${page} fit the window`, async ({ ada }) => {
      await ada.goto(`/o/acme/settings/${page}`);
      const table = ada.getByRole("table");
      await expect(table.getByRole("button", { name: action }).first()).toBeInViewport({ ratio: 1 });
      const room = await table.evaluate(it => [it.getBoundingClientRect().right, innerWidth, it.scrollWidth]);
      expect(room[0]).toBeLessThanOrEqual(room[1] ?? 0);
      expect(room[2]).toBeLessThanOrEqual(room[1] ?? 0);
      const cell = table.locator(`[data-of="${fact}"]`).first();
      const said = await cell.evaluate(it => getComputedStyle(it, "::before").content);
      expect(said).toBe(`"${fact}"`);
      await expectAccessible(ada, `${page} on a phone`);
    });
  }
});
