/** Screenshots of the main pages at three widths in both themes, for a visual review. Writes `screenshots/review`. */
import { expect, test } from "../harness/test";
import { Demo, settle } from "./demo";

test.use({ baseURL: undefined });

const WIDTHS = [1440, 1024, 390];
const HEIGHT = 900;
const PAGES: [string, string][] = [
  ["home", ""],
  ["environments", "/environments"],
  ["environment", "/environments/shop/qa-1"],
  ["pipelines", "/pipelines"],
  ["pipeline", "/pipelines/shop"],
  ["approvals", "/approvals"],
  ["audit-log", "/events"],
  ["profile", "/profile"],
  ["not-found", "/nowhere"],
];

let demo: Demo;

test.beforeAll(async () => {
  test.setTimeout(300_000);
  demo = await Demo.start();
});

test.afterAll(() => demo?.stop());

for (const colorScheme of ["light", "dark"] as const) {
  test(`the main pages, ${colorScheme}`, async ({ browser }) => {
    for (const width of WIDTHS) {
      const page = await demo.logIn(browser, { colorScheme, viewport: { width, height: HEIGHT } });
      const shoot = async (name: string) => {
        await settle(page);
        await page.screenshot({ path: `screenshots/review/${name}-${colorScheme}-${width}.png` });
      };
      for (const [name, path] of PAGES) {
        await demo.open(page, path);
        await shoot(name);
      }
      await demo.open(page, "");
      await page
        .getByRole("link", { name: /^Log of/ })
        .first()
        .click();
      await expect(page.getByRole("region", { name: "Log of Check" })).toContainText("Permission denied");
      await shoot("deployment");
      await demo.open(page, "/environments/shop/qa-1");
      await page.getByRole("button", { name: "Take over" }).click();
      await expect(page.getByRole("dialog")).toBeVisible();
      await shoot("take-over");
      await demo.open(page, "/approvals");
      await page.getByRole("main").getByRole("button", { name: "Approve" }).click();
      await expect(page.getByRole("dialog")).toBeVisible();
      await shoot("approve");
      await page.context().close();
    }
  });
}
