import { expect, logIn, test } from "./harness/test";

test.use({ parts: ["checkout", "secret"] });

test("a login with a wrong password fails, with the right one it redirects to the requested page", async ({
  page,
  world,
}) => {
  await page.goto("/o/acme/settings/secrets");
  await expect(page).toHaveURL(/\/sign-in\?next=/);
  await page.getByLabel("Email").fill(world.ada.email);
  await page.getByRole("textbox", { name: "Password" }).fill("not the password");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("alert")).toContainText("Request ID");
  await page.getByRole("textbox", { name: "Password" }).fill(world.ada.password);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Secrets" })).toBeVisible();
  await expect(page.getByText("DEPLOY_KEY")).toBeVisible();
});

test("a page at 127.0.0.1 redirects to berth.localhost and keeps its fragment", async ({ page, world }) => {
  await page.goto(`${world.server}/sign-in?next=%2Fprofile#here`);
  await expect(page).toHaveURL(`${world.base}/sign-in?next=%2Fprofile#here`);
  expect(new URL(world.base).hostname).toBe("berth.localhost");
});

test("logging out ends the login", async ({ page: ada, world }) => {
  await logIn(ada, world.ada);
  await ada.getByRole("button", { name: "ada, user menu" }).click();
  await ada.getByRole("menuitem", { name: "Log out" }).click();
  await expect(ada.getByRole("heading", { name: "Log in to Berth" })).toBeVisible();
  await ada.goto("/o/acme");
  await expect(ada).toHaveURL(/\/sign-in/);
});

test("a click on the user menu while it is loading opens it", async ({ ada, world }) => {
  let load = () => {};
  const loaded = new Promise<void>(resolve => {
    load = resolve;
  });
  await ada.route("**/assets/ProfileMenu-*.js", async route => {
    await loaded;
    await route.fallback();
  });
  await ada.goto(`${world.base}/o/acme`);
  await ada.getByRole("button", { name: "ada, user menu" }).click();
  load();
  await expect(ada.getByRole("menuitem", { name: "Log out" })).toBeVisible();
});

test("a login does not redirect to a foreign URL", async ({ page, world }) => {
  await page.goto("/sign-in?next=%2F%2Fevil.test%2F");
  await page.getByLabel("Email").fill(world.ada.email);
  await page.getByRole("textbox", { name: "Password" }).fill(world.ada.password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${world.base}/o/acme`);
});

test("keyboard shortcuts open pages, the list of shortcuts and the search", async ({ ada: page }) => {
  await page.goto("/o/acme");
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await expect(page.getByRole("heading", { level: 1, name: "Shared environments" })).toBeVisible();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toContainText("Keyboard shortcuts");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("textbox", { name: "Search", exact: true }).fill("qa-2");
  await page.getByRole("button", { name: /^qa-2.*Checkout/ }).waitFor();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "qa-2" })).toBeVisible();
});
