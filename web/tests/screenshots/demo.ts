/** A demo server with its sample data, and pages logged in to it. */
import type { Browser, BrowserContextOptions, Page } from "@playwright/test";
import { serveBundle } from "../harness/bundle";
import { type Announcement, Server } from "../harness/server";
import { expect } from "../harness/test";

const WINDOW = { width: 1280, height: 800 };
const STORY_MS_MAX = 240_000;
/** Longer than any transition. */
const SETTLE_MS = 600;

export class Demo {
  readonly #server: Server;
  readonly #announced: Announcement;

  private constructor(server: Server, announced: Announcement) {
    this.#server = server;
    this.#announced = announced;
  }

  /** Starts the demo and waits for its sample data. */
  static async start(): Promise<Demo> {
    const server = new Server([]);
    const announced = await server.ready();
    const story = () => fetch(announced.storyUrl).then(answer => answer.json());
    await expect
      .poll(async () => (await story()).done, { timeout: STORY_MS_MAX, intervals: [250] })
      .toBe(true);
    return new Demo(server, announced);
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  /** Opens a page logged in as the owner. */
  async logIn(browser: Browser, options: BrowserContextOptions, hasChecklist = false): Promise<Page> {
    const context = await browser.newContext({ viewport: WINDOW, ...options });
    if (process.env.BERTH_WEB_BUNDLE) await serveBundle(context, process.env.BERTH_WEB_BUNDLE);
    if (!hasChecklist)
      await context.addInitScript(() => sessionStorage.setItem("berth.demo.dismissed", "yes"));
    const page = await context.newPage();
    const [owner] = this.#announced.organizations;
    await page.goto(`${this.#announced.dashboardUrl}/sign-in`);
    await page.getByLabel("Email").fill(owner?.email ?? "");
    await page.getByRole("textbox", { name: "Password" }).fill(owner?.password ?? "");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    await settle(page);
    return page;
  }

  /** Opens a page of the organization. */
  async open(page: Page, path: string) {
    await page.goto(`${this.#announced.dashboardUrl}/o/acme${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settle(page);
  }
}

/** Waits until nothing loads and nothing moves. */
export async function settle(page: Page) {
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
  await page.evaluate(() => document.fonts.ready);
  await page.mouse.move(0, 0);
  await page.waitForTimeout(SETTLE_MS);
}
