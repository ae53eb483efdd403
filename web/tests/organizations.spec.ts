/** Instance admins rename and delete organizations. */
import { expect, expectAccessible, test } from "./harness/test";

test("an instance admin renames an organization, and the old URL still works", async ({ ada }) => {
  await ada.goto("/o/acme");
  await ada.getByRole("button", { name: /user menu/ }).click();
  await ada.getByRole("menuitem", { name: "Organizations" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Organizations" })).toBeVisible();
  await expectAccessible(ada, "the organizations");

  await ada.getByRole("button", { name: /^Rename / }).first().click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Slug").fill("apex");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await expect(ada.getByRole("table")).toContainText("apex");
  await ada.goto("/o/acme/environments");
  await expect(ada).toHaveURL(/\/o\/apex\/environments/);
  await expect(ada.getByRole("heading", { level: 1, name: "Shared environments" })).toBeVisible();

  // The only organization cannot be deleted.
  await ada.goto("/instance/organizations");
  await ada.getByRole("button", { name: /^Delete / }).first().click();
  await expect(dialog.getByRole("button", { name: "Delete organization" })).toBeDisabled();
  await dialog.getByLabel("Enter apex to confirm").fill("apex");
  await dialog.getByRole("button", { name: "Delete organization" }).click();
  await expect(dialog).toContainText("the last organization cannot be deleted");
});
