/** Instance admins manage organizations. The server of this test is local, so it refuses a second organization. */
import { expect, expectAccessible, test } from "./harness/test";

test("an instance admin renames an organization, and the old URL leads to it", async ({ ada }) => {
  await ada.goto("/o/acme");
  await ada.getByRole("button", { name: /user menu/ }).click();
  await ada.getByRole("menuitem", { name: "Organizations" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Organizations" })).toBeVisible();
  await expectAccessible(ada, "the organizations");

  await ada.getByRole("button", { name: "Create organization" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Slug").fill("initech");
  await dialog.getByLabel("Name").fill("Initech");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(dialog).toContainText("A server with --local has only one organization");
  await ada.keyboard.press("Escape");

  await ada.getByRole("button", { name: /^Rename acme$/i }).click();
  await dialog.getByLabel("Slug").fill("apex");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(ada.getByRole("row", { name: /acme/i })).toContainText("apex");
  await ada.goto("/o/acme/settings/members");
  await expect(ada).toHaveURL(/\/o\/apex\/settings\/members/);
  await expect(ada.getByRole("heading", { level: 1, name: "Members" })).toBeVisible();
});
