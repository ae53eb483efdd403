/** The demo's checklist, as described in the documentation, on its own demo server. */
import type { Page } from "@playwright/test";
import { type Announcement, Server } from "./harness/server";
import { expect, expectAccessible, test } from "./harness/test";

// URLs are absolute: this file does not use the server of the fixtures.
test.use({ baseURL: undefined });

let server: Server | undefined;
let announced: Announcement;

test.beforeAll(async () => {
  test.setTimeout(120_000);
  server = new Server([]);
  announced = await server.ready();
  const story = () => fetch(announced.storyUrl).then(answer => answer.json());
  await expect.poll(async () => (await story()).done, { timeout: 100_000, intervals: [100] }).toBe(true);
});

test.afterAll(() => server?.stop());

function dashboard(path: string) {
  return `${announced.dashboardUrl}/o/acme${path}`;
}

/** Returns the cards and controls that the checklist overlaps, at several scroll positions. */
function findOverlaps(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    for (const top of [0, 300, document.documentElement.scrollHeight]) {
      scrollTo(0, top);
      const list = document.querySelector("aside")?.getBoundingClientRect();
      if (!list) return ["no checklist found"];
      for (const it of document.querySelectorAll(
        "main h1, main h2, main a, main button, main .mantine-Card-root",
      )) {
        const box = it.getBoundingClientRect();
        const apart =
          box.right <= list.left ||
          box.left >= list.right ||
          box.bottom <= list.top ||
          box.top >= list.bottom;
        if (!apart) found.push(`${it.tagName} ${it.textContent?.slice(0, 30)}`);
      }
    }
    return found;
  });
}

async function expectSite(page: Page, place: string, words: string) {
  const answer = () => page.request.get(announced.sites[place] ?? "").then(each => each.text());
  await expect.poll(answer, { timeout: 40_000, intervals: [100] }).toContain(words);
}

test("the checklist covers nothing, expanded or collapsed, and can be dismissed", async ({
  page,
  context,
}) => {
  const steps = page.getByRole("complementary", { name: "Getting started" });
  const fold = steps.getByRole("button", { name: /Getting started/ });
  // The login link works once, and the other test needs it.
  await page.goto(dashboard("").replace("/o/acme", "/sign-in"));
  await page.getByLabel("Email").fill(announced.organizations[0]?.email ?? "");
  await page.getByRole("textbox", { name: "Password" }).fill(announced.organizations[0]?.password ?? "");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(steps).toBeVisible();

  for (const width of [390, 768, 900, 1024, 1199, 1200, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await page.reload();
    await expect(page.getByRole("main")).toContainText("Grace until");
    await expect(fold).toHaveAttribute("aria-expanded", String(width >= 1200));
    if (width < 1200) {
      await expect.poll(() => findOverlaps(page), `collapsed, at ${width}`).toEqual([]);
      await fold.click();
    }
    await expect(steps.getByRole("link", { name: "qa-1" })).toBeVisible();
    await expect.poll(() => findOverlaps(page), `expanded, at ${width}`).toEqual([]);
  }
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(dashboard("/environments/shop/qa-2"));
  await page.getByRole("button", { name: "Claim" }).click();
  await expect(page.getByRole("dialog")).toBeVisible();
  await expect(page.getByText("Skip to content")).not.toBeInViewport();

  for (const width of [390, 1024, 1280]) {
    const tab = await context.newPage();
    await tab.setViewportSize({ width, height: 800 });
    await tab.goto(dashboard("/environments"));
    await tab.getByRole("button", { name: "Dismiss" }).click();
    await expect(tab.getByRole("complementary", { name: "Getting started" })).toHaveCount(0);
    await tab.close();
  }
});

test("the checklist completes its steps: claim, take over, approve, roll back, fix", async ({ page }) => {
  test.setTimeout(170_000);
  const steps = page.getByRole("complementary", { name: "Getting started" });
  const dialog = page.getByRole("dialog");

  await page.goto(announced.signInUrl);
  await expect(page).toHaveURL(dashboard(""));
  await expect(page.getByRole("main")).toContainText("1 behind");
  await expect(page.getByRole("main")).toContainText("Grace until");
  await expect(steps).toContainText("Getting started: 0 of 5");
  await page.screenshot({ path: "screenshots/demo-home.png" });
  await expectAccessible(page, "a demo");

  await steps.getByRole("link", { name: "qa-2" }).first().click();
  await page.getByRole("button", { name: "Claim", exact: true }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("feature/dark");
  await dialog.getByLabel("Reason").fill("the shop at night");
  await dialog.getByRole("button", { name: "Claim" }).click();
  await page.getByRole("region", { name: "Deployments in this session" }).getByRole("link").first().click();
  await expect(page.getByRole("region", { name: "Log of Deploy" })).toContainText("sending the pictures");
  await page
    .getByRole("region", { name: "Steps" })
    .getByRole("button", { name: /^Build:/ })
    .click();
  await expect(page.getByRole("region", { name: "Log of Build" })).toBeVisible();
  await expectSite(page, "qa-2", 'data-colour="dark"');
  await expect(steps).toContainText("Getting started: 1 of 5");

  await steps.getByRole("link", { name: "qa-1" }).click();
  await page.getByRole("button", { name: "Take over", exact: true }).click();
  await expect(dialog).toContainText("Take over qa-1 from Grace");
  await dialog.getByLabel("Commit, branch or tag").fill("feature/dark");
  await dialog.getByLabel("Reason").fill("a hotfix");
  await page.screenshot({ path: "screenshots/demo-take-over.png" });
  await dialog.getByRole("button", { name: "Take over" }).click();
  await expectSite(page, "qa-1", "refused a late write: fence 1 of Grace is lower than 2");
  await expectSite(page, "qa-1", 'data-colour="dark"');
  await expect(page.getByRole("main")).toContainText("Linus");
  await page.screenshot({ path: "screenshots/demo-taken-over.png" });
  const shop = await page.context().newPage();
  await shop.goto(announced.sites["qa-1"] ?? "");
  await expect(shop.getByText(/late write/)).toBeVisible();
  await shop.screenshot({ path: "screenshots/demo-site.png" });
  await expectAccessible(shop, "a site of the demo");
  await shop.close();
  await expect(steps).toContainText("Getting started: 2 of 5");

  await steps.getByRole("link", { name: "Approve" }).click();
  await page.getByRole("main").getByRole("button", { name: "Approve" }).click();
  await dialog.getByRole("button", { name: "Approve" }).click();
  await expectSite(page, "production", 'data-colour="green"');
  await expect(steps).toContainText("Getting started: 3 of 5");

  await page.goto(dashboard("/pipelines/shop"));
  await expect(page.getByRole("main")).toContainText("succeeded", { timeout: 20_000 });
  await steps.getByRole("link", { name: "production" }).click();
  await page.getByRole("button", { name: "Roll back" }).click();
  await dialog.getByRole("button", { name: "Roll back production" }).click();
  await expectSite(page, "production", 'data-colour="blue"');
  await expect(steps).toContainText("Getting started: 4 of 5");

  await steps.getByRole("link", { name: "broken" }).click();
  const why = page.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("executable");
  await expect(page.getByRole("region", { name: "Log of Check" })).toContainText("Permission denied");
  await steps.getByRole("button", { name: /Getting started/ }).click();
  await expect(page.getByText("Rollback of production started")).toHaveCount(0, { timeout: 20_000 });
  await why.screenshot({ path: "screenshots/demo-broken.png" });
  await steps.getByRole("button", { name: /Getting started/ }).click();
  await why.getByRole("button", { name: "Open pull request" }).click();
  await dialog.getByRole("button", { name: "Open pull request" }).click();
  await expect(why).toContainText("berth/fix-", { timeout: 20_000 });
  await expect(steps).toContainText("Getting started: 5 of 5");
  await expectAccessible(page, "all steps done");

  await page.setViewportSize({ width: 390, height: 800 });
  await page.reload();
  await expect(steps).toContainText("Getting started: 5 of 5");
  await expect(steps.getByRole("link", { name: "qa-1" })).toBeHidden();
  await steps.getByRole("button", { name: /Getting started/ }).click();
  await expect(steps.getByRole("link", { name: "qa-1" })).toBeVisible();
  const room = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(room[0]).toBe(room[1]);
  await page.screenshot({ path: "screenshots/demo-phone.png" });
  await expectAccessible(page, "a demo on a phone");

  await steps.getByRole("button", { name: "Dismiss" }).click();
  await expect(steps).toHaveCount(0);
  await page.reload();
  await expect(why).toBeVisible();
  await expect(steps).toHaveCount(0);
});
