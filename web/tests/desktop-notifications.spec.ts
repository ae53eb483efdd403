/** Desktop notifications about new messages in the inbox. */
import type { Page } from "@playwright/test";
import { logInAs, withToken } from "./harness/api";
import { buildDefinition, createPipeline } from "./harness/deployments";
import { expect, test } from "./harness/test";

test.use({ parts: ["grace"] });

/** Records the notifications that the page shows, because a test cannot see those of the browser. */
async function recordNotifications(page: Page) {
  await page.addInitScript(() => {
    const shown: string[] = [];
    Object.assign(window, { shownNotifications: shown });
    window.Notification = new Proxy(window.Notification, {
      construct(target, [title, options]: [string, NotificationOptions]) {
        shown.push(title);
        return new target(title, options);
      },
    });
  });
}

function shownNotifications(page: Page): Promise<string[]> {
  return page.evaluate(() => (window as unknown as { shownNotifications: string[] }).shownNotifications);
}

test("a takeover is shown as a desktop notification once they are turned on", async ({
  ada,
  context,
  world,
}) => {
  const text = `${buildDefinition("Pier", { Wait: "true" })}  ephemeral_environments:\n    pier-1: {}\n`;
  await createPipeline(world, "story-pier", text);
  const environment = "/ORG/pipelines/story-pier/ephemeral-environments/pier-1";
  const grace = await logInAs(world, world.grace);
  const takeOver = async (reason: string) => {
    await withToken(world)("POST", `${environment}/sessions`, {});
    const won = await grace("POST", `${environment}/force-claim`, { reason });
    await grace("DELETE", `${environment}/sessions/${won.sessionId}`);
  };
  await context.grantPermissions(["notifications"], { origin: world.base });
  await recordNotifications(ada);
  await ada.goto("/o/acme/profile");
  const toggle = ada.getByRole("switch", { name: "Show new messages in your inbox" });
  await expect(toggle).not.toBeChecked();
  await takeOver("before they are on");
  await expect(ada.getByRole("link", { name: /Inbox/ })).toContainText("1");
  expect(await shownNotifications(ada)).toEqual([]);

  // Not check(): the switch changes only after the inbox has been read.
  await toggle.click({ force: true });
  await expect(toggle).toBeChecked();
  await takeOver("the pier is closed");
  await expect
    .poll(() => shownNotifications(ada))
    .toEqual([expect.stringContaining("took pier-1 of story-pier over from ada: the pier is closed")]);
});
