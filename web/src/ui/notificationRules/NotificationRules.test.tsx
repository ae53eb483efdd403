import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { NotificationRule } from "@/api/types";
import type { RuleScope } from "@/data/notificationRules";
import { expectToast, removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { NotificationRules } from "./NotificationRules";

afterEach(removePage);

const DEFAULTS: NotificationRule[] = [{ channel: "inbox" }, { channel: "email", digestMinutes: 5 }];
const TEAM_RULES = "/teams/tm_1/notification-rules";
const ORGANIZATION_RULES = "/organization-notification-rules";
const TEAM: RuleScope = { kind: "team", teamId: "tm_1" };
const ORGANIZATION: RuleScope = { kind: "organization" };

function ruleSet(rules: NotificationRule[], isDefault = false) {
  return { data: { isDefault, rules, updatedAt: null } };
}

function chatList(...names: string[]) {
  const data = names.map(name => ({ id: `chat_${name}`, name, type: "slack_webhook" }));
  return { data, pagination: { page: 1, limit: 200, total: names.length, hasMore: false } };
}

function renderRules(scope: RuleScope, mayWrite = true) {
  renderPage(() => (
    <NotificationRules scope={scope} org={{ slug: "acme", name: "Acme" }} mayWrite={mayWrite} />
  ));
}

test("first rule of a team does not contain the defaults", async () => {
  const sent = stubServer({
    [`GET ${TEAM_RULES}`]: ruleSet(DEFAULTS, true),
    "GET /chat-destinations": chatList("deploys"),
    [`PUT ${TEAM_RULES}`]: ruleSet([]),
  });
  renderRules(TEAM);
  await screen.findByText(/This team has no rules/);
  const add = screen.getByRole("button", { name: "Add rule" });
  await waitFor(() => expect(add.hasAttribute("disabled")).toBe(false));
  fireEvent.click(add);
  fireEvent.change(await screen.findByLabelText(/Channel/), { target: { value: "chat:deploys" } });
  await screen.findByLabelText("That concern a member of the team");
  fireEvent.click(screen.getByRole("button", { name: "Add" }));
  await expectToast("Rule added");
  expect(sent.find(each => each.call === `PUT ${TEAM_RULES}`)?.body).toEqual({
    rules: [{ channel: "chat", destination: "deploys", about: "mine", kinds: ["*"], digestMinutes: 5 }],
  });
});

test("removing the only rule of a team returns to the defaults", async () => {
  const sent = stubServer({
    [`GET ${TEAM_RULES}`]: ruleSet([{ channel: "chat", destination: "deploys" }]),
    "GET /chat-destinations": chatList(),
    [`PUT ${TEAM_RULES}`]: ruleSet(DEFAULTS, true),
  });
  renderRules(TEAM);
  await screen.findByText(/chat destination was deleted/);
  fireEvent.click(screen.getByRole("button", { name: /^Remove deploys rule/ }));
  await expectToast("Rule removed");
  expect(sent.find(each => each.call === `PUT ${TEAM_RULES}`)?.body).toEqual({ rules: null });
});

test("rules of a team are only listed for members who cannot change them", async () => {
  stubServer({
    [`GET ${TEAM_RULES}`]: ruleSet([{ channel: "email", about: "all" }]),
    "GET /chat-destinations": chatList(),
  });
  renderRules(TEAM, false);
  await screen.findByText("All events that the member may see");
  expect(screen.queryByRole("button")).toBeNull();
});

test("rules of the organization send only to chat destinations", async () => {
  stubServer({
    [`GET ${ORGANIZATION_RULES}`]: ruleSet([], true),
    "GET /chat-destinations": chatList("alerts", "deploys"),
  });
  renderRules(ORGANIZATION);
  await screen.findByText(/The organization has no rules/);
  fireEvent.click(screen.getByRole("button", { name: "Add rule" }));
  const select = (await screen.findByLabelText("Chat destination")) as HTMLSelectElement;
  expect([...select.options].map(each => each.text)).toEqual(["alerts", "deploys"]);
});
