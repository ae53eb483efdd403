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
  ada: async ({ context, world }, use) => use(await signedIn(context, world, world.ada)),
});

export async function signIn(page: Page, person: Person) {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("textbox", { name: "Password" }).fill(person.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/o/**");
}

/** A page of somebody who has signed in before. */
export async function signedIn(context: BrowserContext, world: World, person: Person): Promise<Page> {
  const [name = "", value = ""] = person.cookie?.split("=") ?? [];
  await context.addCookies([{ name, value, url: world.base }]);
  return context.newPage();
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
