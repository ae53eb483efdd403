/** Playwright's test with our server behind it, and the look every page is held to. */
import { AxeBuilder } from "@axe-core/playwright";
import { type BrowserContext, test as base, expect, type Page } from "@playwright/test";
import { type Person, type World, world } from "./world";

export { expect };

type Ours = { world: World; ada: Page };

export const test = base.extend<Ours>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names from here
  world: async ({}, use) => use(world()),
  baseURL: async ({ world }, use) => use(world.base),
  ada: async ({ page, world }, use) => {
    await signIn(page, world.ada);
    await use(page);
  },
});

export async function signIn(page: Page, person: Person) {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("textbox", { name: "Password" }).fill(person.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/o/**");
}

export async function signedIn(context: BrowserContext, person: Person): Promise<Page> {
  const page = await context.newPage();
  await signIn(page, person);
  return page;
}

/** No serious or critical finding of axe. */
export async function isAccessible(page: Page, name: string) {
  const { violations } = await new AxeBuilder({ page }).analyze();
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
