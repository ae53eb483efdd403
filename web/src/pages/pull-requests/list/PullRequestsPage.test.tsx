import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { PullRequest } from "@/api/types";
import { expectToast, removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { PullRequestsPage } from "./PullRequestsPage";

const PULL_REQUEST: PullRequest = {
  repositoryId: "rep_1",
  number: 42,
  title: "Dark mode",
  url: "https://git.acme.test/acme/shop/pull/42",
  author: { id: "7", name: "grace" },
  head: "4d6d0ebe".repeat(5),
  headBranch: "dark-mode",
  baseBranch: "main",
  isFork: false,
  draft: false,
  labels: [],
  state: "open",
  needsApproval: false,
  claims: [
    {
      pipeline: { id: "pl_1", slug: "shop", name: "Shop" },
      environment: { id: "env_1", name: "qa-1" },
      state: "queued",
      position: 2,
      etaSeconds: 720,
      sessionId: null,
      fence: null,
      expiresAt: null,
      deployment: null,
    },
  ],
  error: null,
  createdAt: "2026-11-18T14:00:00.000Z",
  updatedAt: "2026-11-18T14:00:00.000Z",
};

function listOf(...data: PullRequest[]) {
  return { data, pagination: { limit: 50, offset: 0, total: data.length, hasMore: false, nextCursor: null } };
}

afterEach(removePage);

test("row shows number, title, author and the position in the queue", async () => {
  stubServer({ "GET /pull-requests": listOf(PULL_REQUEST) });
  renderPage(PullRequestsPage, "pull-requests");
  const row = (await screen.findByRole("link", { name: "#42 Dark mode" })).closest("tr");
  expect(row?.textContent).toContain("#42 Dark mode by grace");
  expect(row?.textContent).toContain("2nd in queue for qa-1, about 12 min");
  expect(screen.queryByRole("button", { name: /Approve/ })).toBeNull();
});

test("empty list shows the command that connects a repository", async () => {
  stubServer({ "GET /pull-requests": listOf() });
  renderPage(PullRequestsPage, "pull-requests");
  await screen.findByRole("heading", { name: "No open pull requests" });
  expect(screen.getByLabelText("Command that connects a repository").textContent).toMatch(
    /^berth repo connect/,
  );
});

test("approval of a fork names the commit, explains the risk and sends exactly that commit", async () => {
  const fork = { ...PULL_REQUEST, isFork: true, needsApproval: true, claims: [] };
  const path = "POST /repositories/rep_1/pull-requests/42/approve";
  const sent = stubServer({ "GET /pull-requests": listOf(fork), [path]: { data: fork } });
  renderPage(PullRequestsPage, "pull-requests");
  fireEvent.click(await screen.findByRole("button", { name: "Approve 4d6d0ebe for deployment" }));
  const dialog = await screen.findByRole("dialog", { name: "Approve 4d6d0ebe for deployment?" });
  expect(dialog.textContent).toContain("runs the code that grace wrote in a fork");
  expect(dialog.textContent).toContain("no secrets");
  expect(sent.some(each => each.call === path)).toBe(false);
  fireEvent.click(screen.getByRole("button", { name: "Approve 4d6d0ebe" }));
  await waitFor(() => expect(sent).toContainEqual({ call: path, body: { commit: fork.head } }));
  await expectToast("4d6d0ebe approved");
});
