/** Playwright's test with our server behind it, and the look every page is held to. */
import { AxeBuilder } from "@axe-core/playwright";
import { type BrowserContext, test as base, expect, type Page } from "@playwright/test";
import { as } from "./api";
import type { Part } from "./fill";
import { FileServer } from "./server";
import type { Person, World } from "./world";

export { expect };

/** Starting and filling a server has its own limit, so that the first test of a file has as much time as the others. */
const START_MS_MAX = 60_000;

type TestFixtures = { parts: Part[]; world: World; ada: Page };
type WorkerFixtures = { fileServer: FileServer };

export const test = base.extend<TestFixtures, WorkerFixtures>({
  /** What the file's server is filled with: the same for all tests of a file. */
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
  ada: async ({ context, world }, use) => use(await signedIn(context, world, world.ada)),
});

export async function signIn(page: Page, person: Person) {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("textbox", { name: "Password" }).fill(person.password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/o/**");
}

/** Opens a page of a person who is logged in. */
export async function signedIn(context: BrowserContext, world: World, person: Person): Promise<Page> {
  if (!person.cookie) await as(world, person);
  const [name = "", value = ""] = person.cookie?.split("=") ?? [];
  await context.addCookies([{ name, value, url: world.base }]);
  return context.newPage();
}

/** Waits for lines that the log on the page does not have yet. A log that is followed shows only its last lines. */
export async function expectLogGrowth(page: Page) {
  const log = page.locator("[data-log-lines]");
  const lines = await log.getAttribute("data-log-lines");
  await expect(log).not.toHaveAttribute("data-log-lines", lines ?? "");
}

/** No serious or critical finding of axe. */
export async function isAccessible(page: Page, name: string) {
  // The pages have no frames. The other mode opens another page for each analysis to join the results of frames.
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
