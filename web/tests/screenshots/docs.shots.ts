/** Screenshots and the recording of the documentation, on a demo server. Writes `docs/images`. */
import { resolve } from "node:path";
import { expect, test } from "../harness/test";
import { Demo, settle } from "./demo";
import { Recording } from "./recording";

test.use({ baseURL: undefined });

const IMAGES = resolve("../docs/images");
const RECORDING_BYTES_MAX = 3_000_000;

let demo: Demo;

test.beforeAll(async () => {
  test.setTimeout(300_000);
  demo = await Demo.start();
});

test.afterAll(() => demo?.stop());

function image(name: string): string {
  return `${IMAGES}/${name}`;
}

test("screenshots", async ({ browser }) => {
  const first = await demo.logIn(browser, { colorScheme: "light" }, true);
  await expect(first.getByRole("main")).toContainText("Grace until");
  await settle(first);
  await first.screenshot({ path: image("demo-home.png") });

  const light = await demo.logIn(browser, { colorScheme: "light" });
  await demo.open(light, "/environments/shop/qa-1");
  await light.screenshot({ path: image("environment.png") });
  await light.getByRole("button", { name: "Take over" }).click();
  const dialog = light.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("a hotfix");
  await expect(dialog).toContainText("This cancels:");
  await light.screenshot({ path: image("take-over.png") });
  await demo.open(light, "/approvals");
  await light.screenshot({ path: image("approval.png") });

  const dark = await demo.logIn(browser, { colorScheme: "dark" });
  await settle(dark);
  await dark.screenshot({ path: image("home-dark.png") });
  await dark
    .getByRole("link", { name: /^Log of/ })
    .first()
    .click();
  await expect(dark.getByRole("region", { name: "Log of Check" })).toContainText("Permission denied");
  await settle(dark);
  await dark.screenshot({ path: image("deployment-dark.png") });
  await light.goto(dark.url());
  const why = light.getByRole("region", { name: "Why it failed" });
  await why.getByRole("button", { name: "Show evidence and fix" }).click();
  await expect(why).toContainText("old mode");
  await settle(light);
  await why.screenshot({ path: image("analysis.png") });
});

test("recording", async ({ browser }) => {
  const page = await demo.logIn(browser, { colorScheme: "dark" });
  await settle(page);
  const recording = await Recording.start(page);
  const dialog = page.getByRole("dialog");

  await recording.caption("What needs you, what is failing, who has which environment", 3_000);
  await recording.click(page.getByRole("link", { name: /^Log of/ }).first());
  await expect(page.getByRole("region", { name: "Log of Check" })).toContainText("Permission denied");
  await recording.caption("A failure says its cause, and how to fix it", 3_500);
  await recording.click(page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Home" }));

  await recording.click(page.getByRole("button", { name: "Claim qa-2" }));
  await recording.caption("Claim an environment and deploy a branch", 600);
  await recording.type(dialog.getByLabel("Commit, branch or tag"), "feature/dark");
  await recording.type(dialog.getByLabel("Reason"), "the shop at night");
  await recording.click(dialog.getByRole("button", { name: "Claim" }));
  await recording.click(page.getByRole("button", { name: "View deployment" }));
  await expect(page.getByRole("region", { name: /^Log of/ })).toBeVisible();
  await recording.caption("Follow its log", 3_500);

  await demo.open(page, "/environments/shop/qa-1");
  await recording.caption("Grace holds qa-1 for a load test", 1_500);
  await recording.click(page.getByRole("button", { name: "Take over" }));
  await recording.type(dialog.getByLabel("Reason"), "a hotfix");
  await recording.caption("Taking over names what it stops, and tells her why", 2_000);
  await recording.click(dialog.getByRole("button", { name: "Take over" }));
  await expect(page.getByRole("main")).toContainText("Held by you");
  await recording.caption("The environment is yours, and her late writes are fenced off", 2_000);

  await demo.open(page, "/approvals");
  await recording.caption("An approval shows what would change in production", 2_500);
  await recording.click(page.getByRole("main").getByRole("button", { name: "Approve" }));
  await recording.click(dialog.getByRole("button", { name: "Approve" }));
  await expect(dialog).toHaveCount(0);
  await recording.caption("Approved: it goes to production", 1_500);

  const saved = await recording.save(image("tour.webp"));
  process.stdout.write(`tour.webp: ${saved.seconds.toFixed(0)} s, ${saved.bytes} bytes\n`);
  expect(saved.bytes).toBeLessThan(RECORDING_BYTES_MAX);
});
