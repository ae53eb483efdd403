/** Every page in light, dark and at phone width: no serious finding of axe, and a picture to look at. */
import { expect, isAccessible, test } from "./harness/test";

test.use({ parts: ["vera", "ci", "secret", "approval", "deployments", "crane", "sessions"] });

const PAGES: [string, string, string][] = [
  ["home", "/o/acme", "Home"],
  ["welcome", "/o/acme/welcome", "Welcome aboard"],
  ["environments", "/o/acme/environments", "Shared environments"],
  ["environment", "/o/acme/environments/checkout/qa-1", "qa-1"],
  ["environment-past", "/o/acme/environments/checkout/demo", "demo"],
  ["pipelines", "/o/acme/pipelines", "Pipelines"],
  ["pipeline", "/o/acme/pipelines/checkout", "Checkout"],
  ["approvals", "/o/acme/approvals", "Approvals"],
  ["events", "/o/acme/events", "Events"],
  ["insights", "/o/acme/insights", "Insights"],
  ["general", "/o/acme/settings/general", "General"],
  ["tokens", "/o/acme/settings/tokens", "API Tokens"],
  ["members", "/o/acme/settings/members", "Members"],
  ["secrets", "/o/acme/settings/secrets", "Secrets"],
  ["repositories", "/o/acme/settings/repositories", "Repositories"],
  ["webhooks", "/o/acme/settings/webhooks", "Webhooks"],
  ["custom-steps", "/o/acme/settings/custom-steps", "Custom steps"],
  ["runners", "/o/acme/settings/runners", "Runners"],
  ["analysis-settings", "/o/acme/settings/analysis", "Failure analysis"],
  ["profile", "/profile", "Your profile"],
];

const LOOKS = [
  { look: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { look: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { look: "phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
] as const;

// They only read: both workers may take them, each with a server of its own.
test.describe.configure({ mode: "parallel" });

for (const { look, colorScheme, viewport } of LOOKS) {
  test.describe(`in ${look}`, () => {
    test.use({ colorScheme, viewport });

    test("sign-in", async ({ page }) => {
      await page.goto("/sign-in");
      await page.getByRole("button", { name: "Log in" }).waitFor();
      await page.screenshot({ path: `screenshots/sign-in-${look}.png` });
      await isAccessible(page, "sign-in");
    });

    for (const [name, title] of [
      ["invitation", "Open your invitation link"],
      ["reset-password", "Open your reset link"],
    ] as const) {
      test(`${name} without a link`, async ({ page }) => {
        await page.goto(`/${name}`);
        await page.getByRole("heading", { level: 1, name: title }).waitFor();
        await isAccessible(page, name);
      });
    }

    test("all pages", async ({ ada }) => {
      test.setTimeout(240_000);
      const broken: string[] = [];
      ada.on("pageerror", error => broken.push(error.message));
      for (const [name, path, title] of PAGES) {
        await ada.setViewportSize(viewport);
        await ada.goto(path);
        await ada.getByRole("heading", { level: 1, name: title }).waitFor();
        await expect(ada.locator("[aria-busy=true]")).toHaveCount(0);
        await ada.evaluate(() => document.fonts.ready);
        await ada.screenshot({ path: `screenshots/${name}-${look}-window.png` });
        const height = await ada.evaluate(() => document.documentElement.scrollHeight);
        await ada.setViewportSize({ width: viewport.width, height: Math.max(height, viewport.height) });
        await ada.screenshot({ path: `screenshots/${name}-${look}.png` });
        if (path.includes("/settings/"))
          await expect(ada.getByRole("tab", { selected: true })).toBeInViewport();
        const overflow = await ada.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow, `${name} is wider than the window`).toBeLessThanOrEqual(0);
        // Colours differ between light and dark; at phone width only the layout does, and that was measured above.
        if (look !== "phone") await isAccessible(ada, `${name} in ${look}`);
      }
      expect(broken).toEqual([]);
    });
  });
}
