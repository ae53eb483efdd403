/** Every page in light, dark and at phone width: accessibility, overflow and a screenshot. */
import { expect, expectAccessible, test } from "./harness/test";

test.use({ parts: ["vera", "ci", "secret", "approval", "deployments", "crane", "sessions"] });

const PAGES: [string, string, string][] = [
  ["home", "/o/acme", "Home"],
  ["welcome", "/o/acme/welcome", "Get started"],
  ["inbox", "/o/acme/inbox", "Inbox"],
  ["environments", "/o/acme/environments", "Shared environments"],
  ["environment", "/o/acme/environments/checkout/qa-1", "qa-1"],
  ["environment-past", "/o/acme/environments/checkout/demo", "demo"],
  ["pipelines", "/o/acme/pipelines", "Pipelines"],
  ["pipeline", "/o/acme/pipelines/checkout", "Checkout"],
  ["pull-requests", "/o/acme/pull-requests", "Pull requests"],
  ["approvals", "/o/acme/approvals", "Approvals"],
  ["audit-log", "/o/acme/events", "Audit log"],
  ["insights", "/o/acme/insights", "Insights"],
  ["general", "/o/acme/settings/general", "General"],
  ["tokens", "/o/acme/settings/tokens", "API Tokens"],
  ["members", "/o/acme/settings/members", "Members"],
  ["teams", "/o/acme/settings/teams", "Teams"],
  ["secrets", "/o/acme/settings/secrets", "Secrets"],
  ["repositories", "/o/acme/settings/repositories", "Repositories"],
  ["webhooks", "/o/acme/settings/webhooks", "Webhooks"],
  ["chats", "/o/acme/settings/chats", "Chats"],
  ["custom-steps", "/o/acme/settings/custom-steps", "Custom steps"],
  ["runners", "/o/acme/settings/runners", "Runners"],
  ["analysis-settings", "/o/acme/settings/analysis", "Failure analysis"],
  ["profile", "/profile", "Your profile"],
  ["organizations", "/instance/organizations", "Organizations"],
  ["device", "/device", "Authorize the CLI"],
  ["not-found", "/o/acme/nowhere", "Page not found"],
  ["unknown-organization", "/o/globex", "Page not found"],
];

const LOOKS = [
  { look: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { look: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { look: "phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
] as const;

// The tests only read, so that each worker can run them on its own server.
test.describe.configure({ mode: "parallel" });

for (const { look, colorScheme, viewport } of LOOKS) {
  test.describe(`in ${look}`, () => {
    test.use({ colorScheme, viewport });

    test("the login page is accessible", async ({ page }) => {
      await page.goto("/sign-in");
      await page.getByRole("button", { name: "Log in" }).waitFor();
      await page.screenshot({ path: `screenshots/sign-in-${look}.png` });
      await expectAccessible(page, "sign-in");
    });

    for (const [name, title] of [
      ["invitation", "Open your invitation link"],
      ["reset-password", "Open your reset link"],
    ] as const) {
      test(`the ${name} page without a token is accessible`, async ({ page }) => {
        await page.goto(`/${name}`);
        await page.getByRole("heading", { level: 1, name: title }).waitFor();
        await expectAccessible(page, name);
      });
    }

    test("all pages are accessible and fit the window", async ({ ada }) => {
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
          await expect(
            ada.getByRole("navigation", { name: "Settings" }).locator("[aria-current=page]"),
          ).toBeInViewport();
        const overflow = await ada.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow, `${name} is wider than the window`).toBeLessThanOrEqual(0);
        // At phone width only the layout differs, which the overflow check covers.
        if (look !== "phone") await expectAccessible(ada, `${name} in ${look}`);
      }
      expect(broken).toEqual([]);
    });
  });
}
