/** Uses a page with the keyboard alone, and checks that a user can see where the focus is. */
import type { Locator, Page } from "@playwright/test";
import { expect } from "./test";

/** More than the number of elements that can have the focus on any page of the tests. */
const TABS_MAX = 120;

export class Keyboard {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** Presses keys one after the other, for example "g" and "h". */
  async press(...keys: string[]) {
    for (const key of keys) await this.#page.keyboard.press(key);
  }

  async type(text: string) {
    await this.#page.keyboard.type(text);
  }

  /** Presses Tab until the element has the focus. */
  async focus(target: Locator) {
    await target.waitFor();
    for (let tabs = 0; tabs <= TABS_MAX; tabs++) {
      if (await target.evaluate(element => element === document.activeElement)) {
        await expect(target).toBeInViewport();
        const isVisible = await target.evaluate(element => {
          const styles = [element, element.parentElement ?? element].map(each => getComputedStyle(each));
          const isMarked = ({ outlineStyle, borderColor, boxShadow }: CSSStyleDeclaration) =>
            outlineStyle !== "none" || borderColor !== "" || boxShadow !== "none";
          return element.matches(":focus-visible") && styles.some(isMarked);
        });
        expect(isVisible, "the focus is visible").toBe(true);
        return;
      }
      await this.press("Tab");
    }
    throw new Error(`${target} cannot be reached with Tab`);
  }

  /** Presses Enter on a link or button. */
  async activate(target: Locator) {
    await this.focus(target);
    await this.press("Enter");
  }

  async fill(field: Locator, text: string) {
    await this.focus(field);
    await this.press("ControlOrMeta+a");
    await this.type(text);
  }

  /** Types into the command palette and chooses the first entry, once this one is listed. */
  async choose(text: string, entry: RegExp) {
    await this.press("ControlOrMeta+k");
    const search = this.#page.getByRole("textbox", { name: "Search", exact: true });
    await expect(search).toBeFocused();
    await this.type(text);
    await this.#page.getByRole("dialog").getByRole("button", { name: entry }).first().waitFor();
    await this.press("Enter");
    await expect(search).toHaveCount(0);
  }
}
