/** Second factor: set-up, login with a code and a recovery code, requirement of the organization. */
import { createHmac } from "node:crypto";
import type { Page } from "@playwright/test";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";
import type { Person } from "./harness/world";

test.use({ parts: ["grace"] });

const STEP_MS = 30_000;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** Decodes Base32 without padding. */
function decodeKey(key: string): Buffer {
  const bits = [...key].map(char => ALPHABET.indexOf(char).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)));
}

/** Returns the code of a time step (RFC 6238), relative to the current one. */
function codeOf(key: string, steps = 0): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MS) + steps));
  const hash = createHmac("sha1", decodeKey(key)).update(counter).digest();
  const offset = (hash.at(-1) ?? 0) & 15;
  return String((hash.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

/** Sets up a second factor on the profile page. Returns the key and the recovery codes. */
async function setUp(page: Page): Promise<{ key: string; codes: string[] }> {
  const card = page.getByRole("region", { name: "Second factor" });
  await card.getByRole("button", { name: "Set up" }).click();
  await expect(card.getByRole("img", { name: "QR code for your authenticator app" })).toBeVisible();
  const key = (await card.getByLabel("Key", { exact: true }).textContent()) ?? "";
  await page.screenshot({ path: "screenshots/second-factor-set-up.png" });
  await expectAccessible(page, "the set-up of a second factor");
  await card.getByRole("textbox", { name: "Code" }).fill("000000");
  await card.getByRole("button", { name: "Switch on" }).click();
  await expect(card.getByText(/^The code is wrong/)).toBeVisible();
  await card.getByRole("textbox", { name: "Code" }).fill(codeOf(key));
  await card.getByRole("button", { name: "Switch on" }).click();
  const dialog = page.getByRole("dialog", { name: "Recovery codes" });
  const codes = ((await dialog.locator("pre").textContent()) ?? "").split("\n");
  expect(codes).toHaveLength(10);
  await page.screenshot({ path: "screenshots/recovery-codes.png" });
  await expectAccessible(page, "recovery codes");
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(card.getByText("10 recovery codes left")).toBeVisible();
  return { key, codes };
}

async function logInWithCode(page: Page, person: Person, code: string) {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(person.email);
  await page.getByRole("textbox", { name: "Password" }).fill(person.password);
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("alert")).toHaveCount(0);
  await page.getByRole("textbox", { name: "Code" }).fill(code);
  await page.getByRole("button", { name: "Log in" }).click();
}

test("an owner sets up a second factor, requires one from all members, and switches it off", async ({
  ada,
  browser,
  world,
}) => {
  await ada.goto("/profile");
  const { key, codes } = await setUp(ada);

  const page = await (await browser.newContext({ baseURL: world.base })).newPage();
  await logInWithCode(page, world.ada, "123456");
  await expect(page.getByRole("alert")).toContainText("The code is wrong or was already used");
  await page.screenshot({ path: "screenshots/login-code.png" });
  await expectAccessible(page, "the login with a code");
  await page.getByRole("textbox", { name: "Code" }).fill(codeOf(key, 1));
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/o/acme");
  await page.context().clearCookies();
  await logInWithCode(page, world.ada, codes[0] ?? "");
  await page.waitForURL("**/o/acme");
  await page.goto("/profile");
  await expect(page.getByText("9 recovery codes left")).toBeVisible();
  await page.screenshot({ path: "screenshots/second-factor-on.png" });
  await expectAccessible(page, "the profile with a second factor");

  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto("/o/acme");
  await expect(grace.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
  await ada.goto("/o/acme/settings/general");
  await ada.getByLabel("Require a second factor").check();
  await ada.getByRole("button", { name: "Save" }).click();
  await expect(ada.getByText("Saved")).toBeVisible();

  await grace.getByRole("link", { name: "Pipelines" }).click();
  await expect(grace.getByText(/^acme requires a second factor/i)).toBeVisible();
  await grace.screenshot({ path: "screenshots/second-factor-required.png" });
  await expectAccessible(grace, "the profile of a member who needs a second factor");
  await grace.goto("/o/acme");
  await expect(grace).toHaveURL(/\/profile\?required=acme/);
  await setUp(grace);
  await expect(grace.getByText(/^acme requires a second factor/i)).toHaveCount(0);
  await grace.getByRole("link", { name: /^acme$/i }).click();
  await expect(grace.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();

  await ada.goto("/o/acme/settings/members");
  await ada.getByRole("link", { name: /grace/i }).first().click();
  await ada.getByRole("button", { name: "Reset" }).click();
  await ada.getByRole("dialog").getByRole("button", { name: "Reset" }).click();
  await expect(ada.getByText(/^Second factor of .* reset$/)).toBeVisible();

  await ada.goto("/profile");
  await ada.getByRole("button", { name: "New recovery codes" }).click();
  const replaced = ada.getByRole("dialog", { name: "Recovery codes" });
  const first = ((await replaced.locator("pre").textContent()) ?? "").split("\n")[0] ?? "";
  await replaced.getByRole("button", { name: "Done" }).click();
  await ada.getByRole("button", { name: "Switch off" }).click();
  const dialog = ada.getByRole("dialog");
  await expect(dialog).toContainText(/you lose access to acme/i);
  await dialog.getByRole("textbox", { name: "Password" }).fill(world.ada.password);
  await dialog.getByRole("textbox", { name: "Code" }).fill(first);
  await dialog.getByRole("button", { name: "Switch off" }).click();
  await expect(ada.getByText("Second factor switched off")).toBeVisible();
  await expect(ada.getByRole("button", { name: "Set up" })).toBeVisible();
});
