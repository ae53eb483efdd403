/** An instance admin creates, renames and deletes an organization. The server allows several: it is not local. */
import { test as base } from "@playwright/test";
import { hasOpenssl, PublicServer } from "./harness/publicServer";
import { expect, expectAccessible, logIn } from "./harness/test";

const START_MS_MAX = 60_000;

const test = base.extend<{ server: PublicServer }>({
  server: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names from here
    async ({}, use) => {
      const server = new PublicServer();
      await use(server);
      await server.stop();
    },
    { timeout: START_MS_MAX },
  ],
  baseURL: async ({ server }, use) => use(await server.ready()),
  ignoreHTTPSErrors: true,
});

test.skip(!hasOpenssl(), "openssl is not installed");

test("an instance admin creates, renames and deletes an organization", async ({ page, server }) => {
  await logIn(page, server.owner);
  await page.getByRole("button", { name: /user menu/ }).click();
  await page.getByRole("menuitem", { name: "Organizations" }).click();
  await page.getByRole("button", { name: "Create organization" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Slug").fill("acme");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(dialog.getByRole("alert")).toBeVisible();
  await dialog.getByLabel("Slug").fill("initech");
  await dialog.getByLabel("Name").fill("Initech");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(page.getByText("Organization Initech created. You are its owner")).toBeVisible();
  await expect(dialog).toBeHidden();
  await expectAccessible(page, "two organizations");

  // The creator is its owner.
  await page.getByRole("row", { name: "Initech" }).getByRole("link", { name: "Initech" }).click();
  await expect(page).toHaveURL(/\/o\/initech$/);
  await page.goto("/o/initech/settings/members");
  await expect(page.getByRole("row", { name: /ada/ })).toContainText(/owner/i);

  await page.goto("/instance/organizations");
  await page.getByRole("button", { name: "Rename Initech" }).click();
  await dialog.getByLabel("Slug").fill("initrode");
  await dialog.getByLabel("Name").fill("Initrode");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(page.getByText("Organization renamed to Initrode")).toBeVisible();
  await expect(page.getByRole("row", { name: "Initrode" })).toContainText("initech");
  await page.goto("/o/initech/settings/members");
  await expect(page).toHaveURL(/\/o\/initrode\/settings\/members/);

  await page.goto("/instance/organizations");
  await page.getByRole("button", { name: "Delete Initrode" }).click();
  const confirm = dialog.getByRole("button", { name: "Delete organization" });
  await dialog.getByLabel("Enter initrode to confirm").fill("initech");
  await expect(confirm).toBeDisabled();
  await dialog.getByLabel("Enter initrode to confirm").fill("initrode");
  await confirm.click();
  await expect(page.getByText("Organization Initrode deleted")).toBeVisible();
  await expect(page.getByRole("row", { name: "Initrode" })).toBeHidden();
  await expect(page.getByRole("row", { name: "acme" })).toBeVisible();

  // The last organization stays.
  await page.getByRole("button", { name: "Delete acme" }).click();
  await dialog.getByLabel("Enter acme to confirm").fill("acme");
  await confirm.click();
  await expect(dialog).toContainText("last organization");
});
