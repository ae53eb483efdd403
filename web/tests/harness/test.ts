/** Playwright fixtures with a server and logged-in pages, and the accessibility check. */
import { AxeBuilder } from "@axe-core/playwright";
import { type BrowserContext, test as base, expect, type Page } from "@playwright/test";
import { logInAs } from "./api";
import { serveBundle } from "./bundle";
import { FileServer } from "./server";
import type { DataPart } from "./testData";
import type { Person, World } from "./world";

export { expect };

/** Timeout for starting a server, separate from the timeout of a file's first test. */
const START_MS_MAX = 120_000;

type TestFixtures = { parts: DataPart[]; world: World; ada: Page };
type WorkerFixtures = { fileServer: FileServer };

export const test = base.extend<TestFixtures, WorkerFixtures>({
  /** Test data of the file's server; the same for all tests of a file. */
  parts: [[], { option: true }],
  fileServer: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names from here
    async ({}, use) => {
      const fileServer = new FileServer();
      await use(fileServer);
      await fileServer.stop();
    },
    { scope: "worker" },
  ],
  world: [
    async ({ fileServer, parts }, use, info) => use(await fileServer.worldOf(info.file, parts)),
    { timeout: START_MS_MAX },
  ],
  baseURL: async ({ world }, use) => use(world.base),
  context: async ({ context }, use) => {
    await serveBundleIfSet(context);
    await use(context);
  },
  ada: async ({ context, world }, use) => use(await openPageAs(context, world, world.ada)),
});

async function serveBundleIfSet(context: BrowserContext) {
  if (process.env.BERTH_WEB_BUNDLE) await serveBundle(context, process.env.BERTH_WEB_BUNDLE);
}

export async function logIn(page: Page, person: Person) {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("textbox", { name: "Password" }).fill(person.password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/o/**");
}

/** Opens a page logged in as this person. */
export async function openPageAs(context: BrowserContext, world: World, person: Person): Promise<Page> {
  if (!person.cookie) await logInAs(world, person);
  const [name = "", value = ""] = person.cookie?.split("=") ?? [];
  await context.addCookies([{ name, value, url: world.base }]);
  // Contexts that a test creates have no fixture.
  await serveBundleIfSet(context);
  return context.newPage();
}

/** Waits until the log on the page has more lines. A followed log shows only its last lines. */
export async function expectLogGrowth(page: Page) {
  const log = page.locator("[data-log-lines]");
  const lines = await log.getAttribute("data-log-lines");
  await expect(log).not.toHaveAttribute("data-log-lines", lines ?? "");
}

/** Expects no serious or critical accessibility violation found by axe. */
export async function expectAccessible(page: Page, name: string) {
  // Legacy mode does not open a page per analysis; it does not support frames, which our pages do not have.
  const axe = new AxeBuilder({ page }).setLegacyMode(true).options({ resultTypes: ["violations"] });
  const { violations } = await axe.analyze();
  const found = violations
    .filter(each => each.impact === "serious" || each.impact === "critical")
    .map(
      each =>
        `${each.id}: ${each.nodes
          .map(node => node.target.join(" "))
          .slice(0, 4)
          .join(" | ")}`,
    );
  expect.soft(found, name).toEqual([]);
}
