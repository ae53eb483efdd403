/** Accounts: invitations, password reset and password change. */
import type { Browser, Page } from "@playwright/test";
import { addMember, tokenInLink, withToken } from "./harness/api";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";
import type { World } from "./harness/world";

test.use({ parts: ["grace"] });

const PASSWORD = "gulls over a quiet quay";
const NEW_PASSWORD = "a lantern on every mast";
const COPY = ["clipboard-read", "clipboard-write"];

/** Opens a page in a new browser context. */
async function openBrowser(browser: Browser, world: World): Promise<Page> {
  return (await browser.newContext({ baseURL: world.base })).newPage();
}

async function invite(world: World, email: string, role = "deployer"): Promise<{ id: string; url: string }> {
  return withToken(world)("POST", "/ORG/invitations", { email, role });
}

async function expectNoToken(page: Page, token: string) {
  await expect(page).toHaveURL(url => url.hash === "");
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  expect(kept).not.toContain(token);
}

test("an invited person creates an account and becomes a member", async ({
  ada,
  browser,
  context,
  world,
}) => {
  await context.grantPermissions(COPY);
  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("button", { name: "Invite member" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Email").fill("mae@acme.test");
  await dialog.getByLabel("Name").fill("Mae");
  await ada.screenshot({ path: "screenshots/invite.png" });
  await expectAccessible(ada, "the dialog to invite");
  await dialog.getByRole("button", { name: "Invite" }).click();
  const link = (await ada.getByLabel("Invitation link").textContent()) ?? "";
  expect(link).toContain(`${world.base}/invitation#berth_invite_`);
  await expect(dialog).toContainText("The link works once and expires in 7 days.");
  await dialog.getByRole("button", { name: "Copy link" }).click();
  expect(await ada.evaluate(() => navigator.clipboard.readText())).toBe(link);
  await ada.screenshot({ path: "screenshots/invitation-link.png" });
  await expectAccessible(ada, "the invitation link");
  await dialog.getByRole("button", { name: "Done" }).click();
  const pending = ada.getByRole("region", { name: "Pending invitations" });
  await expect(pending.getByRole("row", { name: /mae@acme\.test/ })).toContainText("deployer");
  expect(await ada.content()).not.toContain(tokenInLink(link));
  await ada.screenshot({ path: "screenshots/members-pending.png" });
  await expectAccessible(ada, "members with an invitation");

  const mae = await openBrowser(browser, world);
  await mae.goto(link);
  await expect(mae.getByRole("heading", { level: 1, name: "Join Acme" })).toBeVisible();
  await expect(mae.getByText("invited mae@acme.test as deployer")).toBeVisible();
  await expectNoToken(mae, tokenInLink(link));
  await expect(mae.getByLabel("Name")).toHaveValue("Mae");
  await mae.getByLabel("Name").fill("Mae Jemison");
  const password = mae.getByRole("textbox", { name: "Password" });
  await password.fill("too short");
  await mae.keyboard.press("Enter");
  await expect(mae.getByText("Must be 15 to 256 characters long")).toBeVisible();
  await password.fill("aaaaaaaaaaaaaaaaaaaa");
  await mae.keyboard.press("Enter");
  await expect(mae.getByText(/^The password /)).toBeVisible();
  for (const colorScheme of ["light", "dark"] as const) {
    await mae.emulateMedia({ colorScheme });
    await mae.screenshot({ path: `screenshots/sign-up-${colorScheme}.png` });
    await expectAccessible(mae, `the page to sign up in ${colorScheme}`);
  }
  await password.fill(PASSWORD);
  await mae.getByRole("button", { name: "Create account and join" }).click();
  await mae.waitForURL("**/o/acme");
  await expect(mae.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();

  await expect(ada.getByRole("row", { name: /Mae Jemison/ })).toContainText("mae@acme.test");
  await expect(pending).toHaveCount(0);

  await mae.goto(link);
  await expect(mae.getByRole("heading", { name: "This invitation is no longer valid" })).toBeVisible();
});

test("an invited person with an account logs in and joins", async ({ browser, world }) => {
  const otto = { email: "otto@acme.test", password: PASSWORD };
  await addMember(world, otto, "Otto", "viewer");
  const api = withToken(world);
  const members: { id: string; email: string }[] = await api("GET", "/ORG/members");
  await api("DELETE", `/ORG/members/${members.find(each => each.email === otto.email)?.id}`);
  const { url } = await invite(world, otto.email);

  const page = await openBrowser(browser, world);
  await page.goto(url);
  await expect(page.getByLabel("Email")).toHaveValue(otto.email);
  await expectNoToken(page, tokenInLink(url));
  await page.screenshot({ path: "screenshots/invitation-log-in.png" });
  await expectAccessible(page, "the page to log in and join");
  await page.getByRole("textbox", { name: "Password" }).fill("not the password");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await page.getByRole("textbox", { name: "Password" }).fill(otto.password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Join Acme" }).click();
  await page.waitForURL("**/o/acme");
  await expect(page.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
});

test("an invitation for another email address cannot be accepted while logged in", async ({
  browser,
  world,
}) => {
  const { url } = await invite(world, "nina@acme.test");
  const context = await browser.newContext({ baseURL: world.base });
  const page = await openPageAs(context, world, { ...world.grace, cookie: undefined });
  await page.goto(url);
  await expect(page.getByText("You are logged in as grace@acme.test.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Join Acme" })).toHaveCount(0);
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByRole("button", { name: "Create account and join" })).toBeVisible();
});

test("a revoked invitation link shows that it is no longer valid", async ({ ada, browser, world }) => {
  const { url } = await invite(world, "rita@acme.test");
  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("button", { name: "Revoke invitation for rita@acme.test" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect(ada.getByText("Invitation for rita@acme.test revoked")).toBeVisible();
  const page = await openBrowser(browser, world);
  await page.goto(url);
  await expect(page.getByRole("heading", { name: "This invitation is no longer valid" })).toBeVisible();
  await expect(page.getByText("Ask an admin of the organization for a new link.")).toBeVisible();
  await page.screenshot({ path: "screenshots/invitation-over.png" });
  await expectAccessible(page, "an invitation that is over");
});

test("a password reset link works once", async ({ browser, fileServer, world }) => {
  const lost = { email: "lotte@acme.test", password: PASSWORD };
  await addMember(world, lost, "Lotte", "viewer");
  const link = fileServer.resetLink(lost.email);
  const page = await openBrowser(browser, world);
  await page.goto("/sign-in");
  await page.getByText("Forgot your password?").click();
  await expect(page.getByText("berth admin reset-password")).toBeVisible();
  await page.goto(link);
  await expect(page.getByRole("heading", { level: 1, name: "Set a new password" })).toBeVisible();
  await expectNoToken(page, tokenInLink(link));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `screenshots/reset-password-${colorScheme}.png` });
    await expectAccessible(page, `the page to reset a password in ${colorScheme}`);
  }
  await page.getByRole("textbox", { name: "New password" }).fill(NEW_PASSWORD);
  await page.getByLabel("Also revoke my API tokens").check();
  await page.getByRole("button", { name: "Set password" }).click();
  await expect(page.getByRole("status")).toContainText("0 API tokens were revoked");
  await page.screenshot({ path: "screenshots/log-in-after-reset.png" });
  await page.getByLabel("Email").fill(lost.email);
  await page.getByRole("textbox", { name: "Password" }).fill(NEW_PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/o/acme");

  await page.goto(link);
  await page.getByRole("textbox", { name: "New password" }).fill(NEW_PASSWORD);
  await page.getByRole("button", { name: "Set password" }).click();
  await expect(page.getByRole("heading", { name: "This link is no longer valid" })).toBeVisible();
});

test("changing the password revokes API tokens if requested", async ({ browser, world }) => {
  const kai = { email: "kai@acme.test", password: PASSWORD };
  await addMember(world, kai, "Kai", "deployer");
  const page = await openPageAs(await browser.newContext({ baseURL: world.base }), world, kai);
  await page.goto("/o/acme/settings/tokens");
  await page.getByRole("button", { name: "Create token" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("laptop");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = (await page.getByLabel("API token", { exact: true }).textContent()) ?? "";

  await page.goto("/profile");
  const section = page.getByRole("region", { name: "Password" });
  await section.getByRole("textbox", { name: "Current password" }).fill("not the password");
  await section.getByRole("textbox", { name: "New password" }).fill(NEW_PASSWORD);
  await section.getByLabel("Also revoke my API tokens").check();
  await section.getByRole("button", { name: "Change password" }).click();
  await expect(section.getByText("Wrong password")).toBeVisible();
  await section.getByRole("textbox", { name: "Current password" }).fill(kai.password);
  await section.getByRole("button", { name: "Change password" }).click();
  await expect(page.getByText("Password changed")).toBeVisible();
  const headers = { Authorization: `Bearer ${token}` };
  expect((await fetch(`${world.server}/api/v1/me`, { headers })).status).toBe(401);
  await page.getByRole("link", { name: "API tokens" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "API Tokens" })).toBeVisible();
});
