import { withToken } from "./harness/api";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test.use({ parts: ["grace"] });

test("notification rules are added, edited and reset on the profile", async ({ ada }) => {
  await ada.goto("/profile");
  const card = ada.getByRole("region", { name: "Notifications", exact: true });
  const dialog = ada.getByRole("dialog");
  await expect(card).toContainText("The defaults.");
  await expect(card.getByRole("listitem")).toHaveCount(2);

  await card.getByRole("button", { name: "Add rule" }).click();
  await dialog.getByLabel("All that I may see").check();
  await dialog.getByLabel("Only some kinds of events").check();
  await dialog.getByLabel("Deployment failed").check();
  await dialog.getByLabel("Pipeline").fill("shop*");
  await dialog.getByLabel("Quiet hours").check();
  await dialog.getByLabel("Time zone").fill("Nowhere/Else");
  await expectAccessible(ada, "the dialog of a notification rule");
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(dialog.getByRole("alert")).toBeVisible();
  await dialog.getByLabel("Time zone").fill("Europe/Vienna");
  await dialog.getByRole("button", { name: "Add" }).click();
  const rule = card.getByRole("listitem").last();
  await expect(rule).toContainText("Deployment failed, in pipeline shop*");
  await expect(rule).toContainText("At most every 5 min, not 20:00–08:00 (Europe/Vienna)");

  await rule.getByRole("button", { name: /^Edit/ }).click();
  await dialog.getByLabel("Channel").selectOption("inbox");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(rule).toContainText("Inbox");
  await card
    .getByRole("listitem")
    .first()
    .getByRole("button", { name: /^Remove/ })
    .click();
  await expect(card.getByRole("listitem")).toHaveCount(2);
  await card.getByRole("button", { name: "Restore defaults" }).click();
  await expect(card).toContainText("The defaults.");
});

test("rules of a team and of the organization send to a chat destination", async ({
  ada,
  browser,
  world,
}) => {
  const api = withToken(world);
  const team = await api("POST", "/ORG/teams", { name: "Dockers", slug: "dockers" });
  await api("POST", "/ORG/chat-destinations", {
    name: "deploys",
    type: "slack_webhook",
    url: "https://hooks.invalid/chat",
  });
  const card = ada.getByRole("region", { name: "Notification rules" });
  const dialog = ada.getByRole("dialog");
  const rule = card.getByRole("listitem");

  await ada.goto(`/o/acme/settings/teams/${team.slug}`);
  await expect(card).toContainText("This team has no rules. Its members get the default notifications");
  await card.getByRole("button", { name: "Add rule" }).click();
  await expect(dialog).toContainText("Replaces the default notifications of members");
  await dialog.getByLabel("Channel").selectOption("deploys");
  await dialog.getByLabel("All events").check();
  await dialog.getByLabel("Environment or stage").fill("production");
  await expectAccessible(ada, "the dialog of a team's notification rule");
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(rule).toContainText("All events, in production");
  await expect(card).toContainText("members get the default notifications");
  await expectAccessible(ada, "a team with a rule, in light");
  await ada.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(ada, "a team with a rule, in dark");

  const grace = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await grace.goto(`/o/acme/settings/teams/${team.slug}`);
  const hers = grace.getByRole("region", { name: "Notification rules" });
  await expect(hers.getByRole("listitem")).toHaveCount(1);
  await expect(hers.getByRole("button")).toHaveCount(0);

  await rule.getByRole("button", { name: /^Remove/ }).click();
  await expect(card).toContainText("This team has no rules");

  await ada.goto("/o/acme/settings/chats");
  await expect(card).toContainText("The organization has no rules");
  await card.getByRole("button", { name: "Add rule" }).click();
  await expect(dialog.getByLabel("Chat destination").getByRole("option")).toHaveText(["deploys"]);
  await dialog.getByLabel("Only some kinds of events").check();
  await dialog.getByLabel("Approval requested").check();
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(rule).toContainText("Approval requested, if it concerns a member");
  await expectAccessible(ada, "rules of the organization");
  expect(await api("GET", "/ORG/organization-notification-rules")).toMatchObject({
    rules: [{ channel: "chat", destination: "deploys", kinds: ["approval_requested"], digestMinutes: 5 }],
  });
});
