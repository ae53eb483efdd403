/** What is done on a phone: approve, take over, release. */
import type { Locator, Page } from "@playwright/test";
import { expect, expectAccessible, test } from "./harness/test";

const WIDTH = 390;
const HEIGHT = 844;
/** Minimum height of a touch target, in pixels. */
const TOUCH_PX_MIN = 44;

test.use({
  parts: ["approval", "sessions"],
  viewport: { width: WIDTH, height: HEIGHT },
  hasTouch: true,
  isMobile: true,
});

/** Expects that the page needs no horizontal scrolling. */
async function expectFits(page: Page) {
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(WIDTH);
}

/** Taps a button after checking that it is large enough and inside the window. */
async function tapButton(button: Locator) {
  await expectTouchable(button);
  await button.tap();
}

async function expectTouchable(button: Locator) {
  await button.scrollIntoViewIfNeeded();
  await expect(button).toBeInViewport({ ratio: 1 });
  const box = await button.boundingBox();
  expect(box?.height).toBeGreaterThanOrEqual(TOUCH_PX_MIN);
}

/** Expects a dialog that fills the window and whose buttons are visible without scrolling. */
async function expectFullScreen(dialog: Locator, action: string) {
  await expect.poll(() => dialog.boundingBox()).toEqual({ x: 0, y: 0, width: WIDTH, height: HEIGHT });
  for (const name of ["Cancel", action]) {
    const button = dialog.getByRole("button", { name, exact: true });
    await expect(button).toBeInViewport({ ratio: 1 });
    await expectTouchable(button);
  }
}

async function expectAccessibleInBoth(page: Page, name: string) {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `screenshots/phone-${name.replaceAll(" ", "-")}-${colorScheme}.png` });
    await expectAccessible(page, `${name} in ${colorScheme}`);
  }
}

test("a deployment is approved on Home and on the approvals page", async ({ ada }) => {
  const dialog = ada.getByRole("dialog");
  await ada.goto("/o/acme");
  const needs = ada.getByRole("region", { name: "Needs you" });
  // Without scrolling.
  await expect(needs.getByRole("button", { name: "Approve Checkout → production" })).toBeInViewport({
    ratio: 1,
  });
  await expectFits(ada);
  await tapButton(needs.getByRole("button", { name: "Approve Checkout → production" }));
  await expectFullScreen(dialog, "Approve");
  await dialog.getByRole("button", { name: "Cancel" }).tap();
  await expect(dialog).toHaveCount(0);

  await tapButton(needs.getByRole("link", { name: "Review Checkout → production" }));
  const card = ada.getByRole("article", { name: "Checkout → production" });
  await expectFits(ada);
  await expectAccessibleInBoth(ada, "approvals");
  await expectTouchable(card.getByRole("button", { name: "Reject" }));
  await tapButton(card.getByRole("button", { name: "Approve" }));
  await expectFullScreen(dialog, "Approve");
  await expectAccessibleInBoth(ada, "approve");
  await dialog.getByRole("button", { name: "Approve" }).tap();
  await expect(ada.getByText("Checkout → production approved")).toBeVisible();
});

test("an environment is taken over and released", async ({ ada }) => {
  const dialog = ada.getByRole("dialog");
  await ada.goto("/o/acme");
  const row = ada.getByRole("listitem", { name: "Checkout qa-1", exact: true });
  for (const name of ["Join queue qa-1", "Take over qa-1"])
    await expectTouchable(row.getByRole("button", { name }));
  await expectAccessibleInBoth(ada, "home");
  await row.getByRole("link", { name: "qa-1", exact: true }).tap();

  const session = ada.getByRole("region", { name: "Session", exact: true });
  const takeOver = session.getByRole("button", { name: "Take over" });
  await expect(takeOver).toBeInViewport({ ratio: 1 });
  await expectFits(ada);
  await expectAccessibleInBoth(ada, "environment");
  await tapButton(takeOver);
  await expectFullScreen(dialog, "Take over");
  await expectFits(ada);
  await expectAccessibleInBoth(ada, "take over");
  await dialog.getByLabel("Reason").fill("a hotfix");
  await dialog.getByRole("button", { name: "Take over" }).tap();
  await expect(session).toContainText("Held by you");

  await expectFits(ada);
  const release = session.getByRole("button", { name: "Release" });
  await expect(release).toBeInViewport({ ratio: 1 });
  await tapButton(release);
  await expectFullScreen(dialog, "Release");
  await expectAccessibleInBoth(ada, "release");
  await dialog.getByRole("button", { name: "Release" }).tap();
  await expect(ada.getByText("qa-1 released")).toBeVisible();
});

test("an environment is released in its row on Home", async ({ ada }) => {
  await ada.goto("/o/acme");
  const row = ada.getByRole("listitem", { name: "Checkout qa-2", exact: true });
  await expectFits(ada);
  await tapButton(row.getByRole("button", { name: "Release qa-2" }));
  const dialog = ada.getByRole("dialog");
  await expectFullScreen(dialog, "Release");
  await dialog.getByRole("button", { name: "Release" }).tap();
  await expect(row.getByRole("button", { name: "Claim qa-2" })).toBeVisible();
});
