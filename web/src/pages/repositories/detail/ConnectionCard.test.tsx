import { fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { RepositoryConnection } from "@/api/types";
import { removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { ConnectionCard } from "./ConnectionCard";

const CONNECTION: RepositoryConnection = {
  repositoryId: "rep_1",
  accountId: "usr_1",
  forge: "github",
  hookUrl: "https://berth.acme.test/hooks/github/hook_1",
  isManaged: false,
  isVerified: false,
  verifiedAt: null,
  error: null,
  app: null,
  instructions: ["Open the settings of the repository", "Add a webhook"],
  createdAt: "2026-11-18T12:00:00Z",
  updatedAt: "2026-11-18T12:00:00Z",
};

function Card() {
  return <ConnectionCard repositoryId="rep_1" />;
}

afterEach(removePage);

test("verified connection shows the forge, the last delivery and the table of deliveries", async () => {
  const receivedAt = new Date(Date.now() - 170_000).toISOString();
  stubServer({
    "GET /repositories/rep_1/connection": { data: { ...CONNECTION, verifiedAt: receivedAt } },
    "GET /repositories/rep_1/deliveries": {
      data: [{ id: "1", kind: "pull_request.opened", outcome: "pull request 42 updated", receivedAt }],
    },
  });
  renderPage(Card);
  await screen.findByText("pull request 42 updated");
  const connection = screen.getByRole("region", { name: "Connection" });
  expect(connection.textContent).toContain("Connected to GitHub, last delivery 2 min ago");
  expect(screen.queryByLabelText("URL of the webhook")).toBeNull();
});

test("connection without a delivery shows what to enter on the forge", async () => {
  stubServer({
    "GET /repositories/rep_1/connection": {
      data: { ...CONNECTION, error: "the credential may not create webhooks" },
    },
    "GET /repositories/rep_1/deliveries": { data: [] },
  });
  renderPage(Card);
  await screen.findByText("Waiting for the first delivery from GitHub");
  expect(screen.getByLabelText("URL of the webhook").textContent).toBe(CONNECTION.hookUrl);
  screen.getByText("Add a webhook");
  screen.getByText("the credential may not create webhooks");
});

test("connecting shows the secret once", async () => {
  const sent = stubServer({
    "POST /repositories/rep_1/connection": { data: { ...CONNECTION, secret: "s3cret-of-the-hook" } },
  });
  renderPage(Card);
  await screen.findByText("Not connected");
  fireEvent.click(screen.getByRole("button", { name: "Connect" }));
  fireEvent.change(await screen.findByLabelText("Forge"), { target: { value: "gitlab" } });
  fireEvent.click(screen.getAllByRole("button", { name: "Connect" }).at(-1) as HTMLElement);
  expect((await screen.findByLabelText("Secret")).textContent).toBe("s3cret-of-the-hook");
  expect(sent).toContainEqual({ call: "POST /repositories/rep_1/connection", body: { forge: "gitlab" } });
});
