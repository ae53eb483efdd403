/** Instance admins create, rename and delete organizations. */
import { expect, expectAccessible, test } from "./harness/test";

test("an instance admin creates, renames and deletes an organization", async ({ ada }) => {
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
  await ada.getByRole("button", { name: "Rename Initech" }).click();
  await dialog.getByLabel("Slug").fill("initrode");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(ada.getByRole("row", { name: "Initech" })).toContainText("initrode");

  // The old URL leads to the organization.
  await ada.goto("/o/initech/settings/members");
  await expect(ada).toHaveURL(/\/o\/initrode\/settings\/members/);
  await expect(ada.getByRole("heading", { level: 1, name: "Members" })).toBeVisible();

  await ada.goto("/instance/organizations");
  await ada.getByRole("button", { name: "Delete Initech" }).click();
  await expect(dialog.getByRole("button", { name: "Delete organization" })).toBeDisabled();
  await dialog.getByLabel("Enter initrode to confirm").fill("initrode");
  await dialog.getByRole("button", { name: "Delete organization" }).click();
  await expect(ada.getByRole("row", { name: "Initech" })).toHaveCount(0);
});
