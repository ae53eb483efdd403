/** Logins of the CLI, approved in the browser, and the list of active logins. */
import { CliLogin } from "./harness/cliLogin";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test.use({ parts: ["grace"] });

test("berth login is authorized in the browser and logout revokes its token", async ({ ada, world }) => {
  const cli = new CliLogin(world.server);
  try {
    await expect.poll(() => cli.openedPage()).toContain(`${world.base}/device#`);
    const page = cli.openedPage() ?? "";
    await ada.goto(page);
    await expect(ada.getByRole("heading", { level: 1, name: "Authorize the CLI" })).toBeVisible();
    await expect(ada.getByText(new URL(page).hash.slice(1))).toBeVisible();
    await expect(ada).toHaveURL(url => url.hash === "");
    await expectAccessible(ada, "the page to authorize the CLI");
    await ada.screenshot({ path: "screenshots/authorize-cli.png" });
    await ada.getByLabel("Token expires after").selectOption("7 days");
    await ada.getByRole("button", { name: "Authorize" }).click();
    await expect(ada.getByText("You can close this page and return to the terminal")).toBeVisible();
    expect(new URL(ada.url()).hostname).toBe("127.0.0.1");
    expect(await cli.exitCode()).toBe(0);
    expect(cli.run("token", "list")).toContain("berth CLI on ");

    await ada.goto(`${world.base}/o/acme/settings/tokens`);
    const token = ada.getByRole("row", { name: /berth CLI on/ });
    await expect(token).toContainText("berth CLI, 127.0.0.1");
    expect(cli.run("logout")).toContain("Logged out.");
    await ada.reload();
    await expect(ada.getByRole("heading", { level: 1, name: "API Tokens" })).toBeVisible();
    await expect(token).toHaveCount(0);
  } finally {
    cli.remove();
  }
});

test("a code from a machine without a browser is entered and denied", async ({ ada, world }) => {
  const cli = new CliLogin("--device", world.server);
  try {
    await expect.poll(() => cli.shownCode()).toBeTruthy();
    await ada.goto("/device");
    await expectAccessible(ada, "the page to enter a code");
    await ada.getByLabel("Code").fill("BBBB-BBBB");
    await ada.getByRole("button", { name: "Continue" }).click();
    await expect(ada.getByRole("heading", { name: "This code is not valid" })).toBeVisible();
    await ada.goto("/device");
    await ada.getByLabel("Code").fill((cli.shownCode() ?? "").toLowerCase());
    await ada.getByRole("button", { name: "Continue" }).click();
    await expect(ada.getByText("Continue only if you started this login yourself")).toBeVisible();
    await ada.getByRole("button", { name: "Deny" }).click();
    await expect(ada.getByRole("heading", { name: "Login denied" })).toBeVisible();
    expect(await cli.exitCode()).toBe(1);
  } finally {
    cli.remove();
  }
});

test("active logins are listed and ended", async ({ ada, browser, world }) => {
  const context = await browser.newContext({ baseURL: world.base });
  const other = await openPageAs(context, world, { ...world.ada, cookie: undefined });
  await ada.goto("/profile");
  const logins = ada.getByRole("region", { name: "Active logins" });
  await expect(logins.getByText("this browser")).toHaveCount(1);
  await logins.getByRole("button", { name: "Log out everywhere else" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Log out" }).click();
  await expect(logins.getByRole("row")).toHaveCount(2);
  await other.goto("/profile");
  await expect(other).toHaveURL(/\/sign-in/);
  await context.close();
});

test("an admin logs a member out everywhere", async ({ ada, browser, world }) => {
  const context = await browser.newContext({ baseURL: world.base });
  const grace = await openPageAs(context, world, world.grace);
  await grace.goto("/profile");
  await expect(grace.getByRole("heading", { level: 1, name: "Your profile" })).toBeVisible();
  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("button", { name: "Log out Grace" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Log out" }).click();
  await expect(ada.getByText("logged out everywhere").first()).toBeVisible();
  await grace.goto("/profile");
  await expect(grace).toHaveURL(/\/sign-in/);
  await context.close();
});
