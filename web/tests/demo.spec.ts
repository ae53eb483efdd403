/** The first five minutes in the dashboard, as the README tells them, in a demo of their own. */
import type { Page } from "@playwright/test";
import { type Announcement, Server } from "./harness/server";
import { expect, isAccessible, test } from "./harness/test";

// Addresses are absolute: no other server is started for this file.
test.use({ baseURL: undefined });

let server: Server | undefined;
let told: Announcement;

test.beforeAll(async () => {
  test.setTimeout(120_000);
  server = new Server([]);
  told = await server.ready();
  const story = () => fetch(told.storyUrl).then(answer => answer.json());
  await expect.poll(async () => (await story()).done, { timeout: 100_000, intervals: [100] }).toBe(true);
});

test.afterAll(() => server?.stop());

function dashboard(path: string) {
  return `${told.dashboardUrl}/o/acme${path}`;
}

/** Cards and headings of the page that the first steps lie on, wherever the page is scrolled to. */
function covered(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    for (const top of [0, 300, document.documentElement.scrollHeight]) {
      scrollTo(0, top);
      const list = document.querySelector("aside")?.getBoundingClientRect();
      if (!list) return ["there are no first steps"];
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

async function site(page: Page, place: string, words: string) {
  const answer = () => page.request.get(told.sites[place] ?? "").then(each => each.text());
  await expect.poll(answer, { timeout: 40_000, intervals: [100] }).toContain(words);
}

test("the first steps cover nothing, open or folded, and go away when told to", async ({ page, context }) => {
  const steps = page.getByRole("complementary", { name: "First steps" });
  const fold = steps.getByRole("button", { name: /First steps/ });
  // The link that signs in works once, and the other test needs it.
  await page.goto(dashboard("").replace("/o/acme", "/sign-in"));
  await page.getByLabel("Email").fill(told.organizations[0]?.email ?? "");
  await page.getByRole("textbox", { name: "Password" }).fill(told.organizations[0]?.password ?? "");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(steps).toBeVisible();

  for (const width of [390, 768, 900, 1024, 1199, 1200, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await page.reload();
    await expect(page.getByRole("main")).toContainText("held by Grace");
    await expect(fold).toHaveAttribute("aria-expanded", String(width >= 1200));
    if (width < 1200) {
      await expect.poll(() => covered(page), `folded, at ${width}`).toEqual([]);
      await fold.click();
    }
    await expect(steps.getByRole("link", { name: "qa-1" })).toBeVisible();
    await expect.poll(() => covered(page), `open, at ${width}`).toEqual([]);
  }
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(dashboard("/environments/shop/qa-2"));
  await page.getByRole("button", { name: "Claim" }).click();
  await expect(page.getByRole("dialog")).toBeVisible();
  await expect(page.getByText("To the content")).not.toBeInViewport();

  for (const width of [390, 1024, 1280]) {
    const tab = await context.newPage();
    await tab.setViewportSize({ width, height: 800 });
    await tab.goto(dashboard("/environments"));
    await tab.getByRole("button", { name: "Dismiss the first steps" }).click();
    await expect(tab.getByRole("complementary", { name: "First steps" })).toHaveCount(0);
    await tab.close();
  }
});

test("claim, take over, approve, roll back, mend: the list in the corner ticks itself", async ({ page }) => {
  test.setTimeout(170_000);
  const steps = page.getByRole("complementary", { name: "First steps" });
  const dialog = page.getByRole("dialog");

  await page.goto(told.signInUrl);
  await expect(page).toHaveURL(dashboard(""));
  await expect(page.getByRole("main")).toContainText("1 behind");
  await expect(page.getByRole("main")).toContainText("held by Grace");
  await expect(steps).toContainText("First steps, 0 of 5");
  await page.screenshot({ path: "screenshots/demo-home.png" });
  await isAccessible(page, "a demo");

  await steps.getByRole("link", { name: "qa-2" }).first().click();
  await page.getByRole("button", { name: "Claim" }).click();
  await dialog.getByLabel("Commit, branch or tag").fill("feature/dark");
  await dialog.getByLabel("Why").fill("the shop at night");
  await dialog.getByRole("button", { name: "Claim" }).click();
  await page.getByRole("region", { name: "Deployments of this hold" }).getByRole("link").first().click();
  await expect(page.getByRole("region", { name: "Log of Deploy" })).toContainText("sending the pictures");
  await page.getByRole("group").getByRole("button", { name: "Build" }).click();
  await expect(page.getByRole("region", { name: "Log of Build" })).toBeVisible();
  await site(page, "qa-2", 'data-colour="dark"');
  await expect(steps).toContainText("First steps, 1 of 5");

  await steps.getByRole("link", { name: "qa-1" }).click();
  await page.getByRole("button", { name: "Take over" }).click();
  await expect(dialog).toContainText("Take over qa-1 from Grace");
  await dialog.getByLabel("Commit, branch or tag").fill("feature/dark");
  await dialog.getByLabel("Why you take over").fill("a hotfix");
  await page.screenshot({ path: "screenshots/demo-take-over.png" });
  await dialog.getByRole("button", { name: "Take over" }).click();
  await site(page, "qa-1", "refused a late write: fence 1 of Grace is lower than 2");
  await site(page, "qa-1", 'data-colour="dark"');
  await expect(page.getByRole("main")).toContainText("Linus");
  await page.screenshot({ path: "screenshots/demo-taken-over.png" });
  const shop = await page.context().newPage();
  await shop.goto(told.sites["qa-1"] ?? "");
  await expect(shop.getByText("refused a late write")).toBeVisible();
  await shop.screenshot({ path: "screenshots/demo-site.png" });
  await isAccessible(shop, "a site of the demo");
  await shop.close();
  await expect(steps).toContainText("First steps, 2 of 5");

  await steps.getByRole("link", { name: "Approve" }).click();
  await page.getByRole("main").getByRole("button", { name: "Approve" }).click();
  await dialog.getByRole("button", { name: "Approve" }).click();
  await site(page, "production", 'data-colour="green"');
  await expect(steps).toContainText("First steps, 3 of 5");

  await page.goto(dashboard("/pipelines/shop"));
  await expect(page.getByRole("main")).toContainText("succeeded", { timeout: 20_000 });
  await steps.getByRole("link", { name: "production" }).click();
  await page.getByRole("button", { name: "Roll back" }).click();
  await dialog.getByRole("button", { name: "Roll back production" }).click();
  await site(page, "production", 'data-colour="blue"');
  await expect(steps).toContainText("First steps, 4 of 5");

  await steps.getByRole("link", { name: "broken" }).click();
  const why = page.getByRole("region", { name: "Why it failed" });
  await expect(why).toContainText("it has lost its executable bit");
  await expect(page.getByRole("region", { name: "Log of Check" })).toContainText("Permission denied");
  await steps.getByRole("button", { name: /First steps/ }).click();
  await expect(page.getByText("takes production back")).toHaveCount(0, { timeout: 20_000 });
  await why.screenshot({ path: "screenshots/demo-broken.png" });
  await steps.getByRole("button", { name: /First steps/ }).click();
  await why.getByRole("button", { name: "Propose it as a pull request" }).click();
  await dialog.getByRole("button", { name: "Propose it" }).click();
  await expect(why).toContainText("berth/fix-", { timeout: 20_000 });
  await expect(steps).toContainText("First steps, 5 of 5");
  await isAccessible(page, "all steps done");

  await page.setViewportSize({ width: 390, height: 800 });
  await page.reload();
  await expect(steps).toContainText("First steps, 5 of 5");
  await expect(steps.getByRole("link", { name: "qa-1" })).toBeHidden();
  await steps.getByRole("button", { name: /First steps/ }).click();
  await expect(steps.getByRole("link", { name: "qa-1" })).toBeVisible();
  const room = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(room[0]).toBe(room[1]);
  await page.screenshot({ path: "screenshots/demo-phone.png" });
  await isAccessible(page, "a demo on a phone");

  await steps.getByRole("button", { name: "Dismiss the first steps" }).click();
  await expect(steps).toHaveCount(0);
  await page.reload();
  await expect(why).toBeVisible();
  await expect(steps).toHaveCount(0);
});
