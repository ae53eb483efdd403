/** Command palette, with the keyboard only. */
import { withToken } from "./harness/api";
import { expect, expectAccessible, test } from "./harness/test";

test.use({ parts: ["grace", "approval", "deployments"] });

test("actions are taken from the palette with the keyboard alone", async ({ ada, world }) => {
  const search = ada.getByRole("textbox", { name: "Search", exact: true });
  const dialog = ada.getByRole("dialog", { name: /qa-1|Checkout/ });
  const choose = async (text: string, name: RegExp) => {
    await ada.keyboard.press("Control+k");
    await expect(search).toBeFocused();
    await ada.keyboard.type(text);
    const first = ada.getByRole("dialog").getByRole("button", { name }).first();
    await expect(first).toHaveAttribute("data-selected", "true");
    await ada.keyboard.press("Enter");
    await expect(search).toHaveCount(0);
  };
  await ada.goto("/o/acme");
  await ada.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await ada.keyboard.press("Control+k");
  await expect(ada.getByRole("button", { name: /^Approve Checkout → production/ })).toBeVisible();
  await expectAccessible(ada, "the command palette");
  await ada.keyboard.press("Escape");
  // The palette clears its text when it has closed.
  await expect(search).toHaveCount(0);

  await choose("claim qa-1", /^Claim qa-1/);
  await expect(dialog).toContainText("Claim qa-1");
  await expect(dialog.getByLabel("Commit, branch or tag")).toBeFocused();
  await ada.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await expect(ada.getByText("qa-1 claimed")).toBeVisible();
  await expect(ada).not.toHaveURL(/do=/);

  await choose("release", /^Release qa-1/);
  await expect(dialog).toContainText("Release qa-1?");
  await ada.keyboard.press("Enter");
  await expect(ada.getByText("qa-1 released")).toBeVisible();

  await choose("deploy checkout", /^Deploy Checkout/);
  await expect(dialog).toContainText("Deploy Checkout");
  await expect(dialog.getByLabel("Commit", { exact: true })).toBeFocused();
  await ada.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await expect(ada).toHaveURL(/pipelines\/checkout$/);

  await choose("approve", /^Approve Checkout → production/);
  await expect(dialog).toContainText("Approve Checkout → production?");
  // From the comment past Cancel.
  await ada.keyboard.press("Tab");
  await ada.keyboard.press("Tab");
  await ada.keyboard.press("Enter");
  await expect(ada.getByText("Checkout → production approved")).toBeVisible();
  expect((await withToken(world)("GET", "/ORG/approvals")).length).toBe(0);

  const scheme = () => ada.evaluate(() => document.documentElement.dataset.mantineColorScheme);
  const before = await scheme();
  await choose("toggle", /^Toggle theme/);
  await expect.poll(scheme).not.toBe(before);
});

test("people, deployments and settings are found", async ({ ada }) => {
  const find = async (text: string, name: RegExp) => {
    await ada.goto("/o/acme");
    await ada.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    await ada.keyboard.press("Control+k");
    await expect(ada.getByRole("textbox", { name: "Search", exact: true })).toBeFocused();
    await ada.keyboard.type(text);
    const first = ada.getByRole("dialog").getByRole("button", { name }).first();
    await expect(first).toHaveAttribute("data-selected", "true");
    await ada.keyboard.press("Enter");
  };
  await find("grace", /^Grace Hopper/);
  await expect(ada.getByRole("heading", { level: 1, name: "Grace Hopper" })).toBeVisible();
  await find("broken-index", /^Search #2/);
  await expect(ada.getByRole("heading", { level: 1, name: "Search #2" })).toBeVisible();
  await find("webhooks", /Settings: Webhooks/);
  await expect(ada.getByRole("heading", { level: 1, name: "Webhooks" })).toBeVisible();
});
