import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { expectToast, removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { ChatsPage } from "./ChatsPage";

afterEach(removePage);

const CHAT = {
  id: "chat_1",
  name: "deploys",
  type: "slack_webhook",
  host: "hooks.slack.com",
  channel: null,
  pending: 2,
  failures: 1,
  error: "the chat responded with 404",
  deliveredAt: null,
  createdAt: "2026-11-18T14:00:00Z",
};
const PAGE = { page: 1, limit: 200, total: 1, hasMore: false };
const NO_RULES = { data: { isDefault: true, rules: [], updatedAt: null } };
const SLACK = { connection: null, requestUrl: "https://berth.test/hooks/slack/org_1", manifest: {} };

test("failing destination shows why, and can be tested", async () => {
  const sent = stubServer({
    "GET /chat-destinations": { data: [CHAT], pagination: PAGE },
    "GET /slack": { data: SLACK },
    "GET /organization-notification-rules": NO_RULES,
    "POST /chat-destinations/chat_1/test": { data: CHAT },
  });
  renderPage(ChatsPage);
  await screen.findByText(/the chat responded with 404/);
  expect(screen.getByText("failing")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Test" }));
  await expectToast("Sending a test message");
  expect(sent.map(each => each.call)).toContain("POST /chat-destinations/chat_1/test");
});

test("destination is added with the URL of its webhook", async () => {
  const sent = stubServer({
    "GET /chat-destinations": { data: [], pagination: { ...PAGE, total: 0 } },
    "GET /slack": { data: SLACK },
    "GET /organization-notification-rules": NO_RULES,
    "POST /chat-destinations": { data: CHAT },
  });
  renderPage(ChatsPage);
  fireEvent.click((await screen.findAllByRole("button", { name: "Add destination" }))[0] as HTMLElement);
  fireEvent.change(await screen.findByLabelText(/Name/), { target: { value: "deploys" } });
  fireEvent.change(screen.getByLabelText(/Webhook URL/), { target: { value: "https://hooks.slack.com/x" } });
  fireEvent.click(screen.getByRole("button", { name: "Add" }));
  await waitFor(() =>
    expect(sent.find(each => each.call === "POST /chat-destinations")?.body).toEqual({
      name: "deploys",
      type: "slack_webhook",
      url: "https://hooks.slack.com/x",
    }),
  );
  await expectToast("deploys added");
});
