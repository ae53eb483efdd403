import { screen, within } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Approval, ApprovalChanges, Commit } from "@/api/types";
import { removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { ApprovalCard } from "./ApprovalCard";

const HASH = "4d6d0ebe".repeat(5);

function commitOf(title: string, letter: string): Commit {
  return {
    commitId: letter.repeat(40),
    title,
    author: { name: "Grace Hopper" },
    authoredAt: "2026-11-18T12:00:00.000Z",
    url: `https://forge.test/${letter}`,
  };
}

const APPROVAL: Approval = {
  id: "apr_1",
  pipelineId: "pl_1",
  deploymentId: "dep_5",
  stepId: null,
  stage: "production",
  status: "pending",
  commitId: HASH,
  commit: { ...commitOf("Make the shop green", "a"), commitId: HASH },
  compareUrl: "https://forge.test/compare",
  digest: "sha256:00",
  message: null,
  required: 2,
  given: 1,
  rule: { approvals: 2, from: ["approver", "ada@acme.test"], selfApproval: false, timeoutSeconds: null },
  raisedBecause: null,
  excluded: [],
  unreachable: null,
  votes: [],
  requestedAt: "2026-11-18T12:00:00.000Z",
  expiresAt: null,
  endedAt: null,
  lapsedBecause: null,
};

const CHANGES: ApprovalChanges = {
  from: commitOf("Paint the shop blue", "b"),
  to: APPROVAL.commit,
  commits: ["c", "d", "e", "f", "0", "1", "2"].map(letter => commitOf(`Change ${letter}`, letter)),
  commitCount: 60,
  files: [
    { path: "site/index.html", added: 4, removed: 1 },
    { path: "site/logo.png", added: null, removed: null },
  ],
  fileCount: 2,
  compareUrl: "https://forge.test/compare",
  definition: { added: 3, removed: 2 },
  secrets: [{ name: "DEPLOY_KEY", change: "updated" }],
};

async function renderApproval(approval: Partial<Approval>, changes?: ApprovalChanges) {
  stubServer({
    "GET /pipelines/pl_1": {
      data: { id: "pl_1", slug: "shop", name: "Shop", stages: [{ name: "staging" }, { name: "production" }] },
    },
    ...(changes && { "GET /approvals/apr_1/changes": { data: changes } }),
  });
  renderPage(() => <ApprovalCard approval={{ ...APPROVAL, ...approval }} isHighlighted={false} />);
  return screen.findByRole("article", { name: "Shop → production" });
}

afterEach(removePage);

test("an approval shows the commits, files, definition and secrets that it changes", async () => {
  const card = await renderApproval({}, CHANGES);
  expect(within(card).getByRole("link", { name: "Make the shop green" })).toBeTruthy();
  const changes = within(card).getByRole("region", { name: "Changes in production" });
  await within(changes).findByText("What changes in production", { exact: false });
  expect(changes.textContent).toContain("What changes in production: 60 commits, 2 files");
  expect(within(changes).getByRole("link", { name: "Change c" }).getAttribute("href")).toBe(
    "https://forge.test/c",
  );
  expect(changes.textContent).toContain("2 earlier commits");
  expect(changes.textContent).toContain("and 53 more");
  expect(changes.textContent).toContain("site/index.html+4 −1");
  expect(changes.textContent).toContain("site/logo.pngbinary");
  expect(changes.textContent).toContain("Definition +3 −2");
  expect(changes.textContent).toContain("Secrets: DEPLOY_KEY updated");
  expect(within(changes).getByRole("link", { name: /Compare on the forge/ })).toBeTruthy();
});

test("an approval says who may approve, and why the user cannot", async () => {
  const card = await renderApproval({ excluded: ["Ada"] }, CHANGES);
  expect(card.textContent).toContain("Needs 1 more of 2 approvals from approver or ada@acme.test");
  expect(card.textContent).toContain("You cannot approve: you wrote or started this change");
});

test("a first deployment has nothing to compare with", async () => {
  const changes = { ...CHANGES, from: null, files: null, fileCount: null, definition: null, secrets: [] };
  const card = await renderApproval({}, changes);
  expect(await within(card).findByText("Nothing is deployed in production yet")).toBeTruthy();
  expect(within(card).queryByText("Change c")).toBeNull();
});

test("an approval without permission to read secrets shows the commits", async () => {
  const changes = { ...CHANGES, files: null, fileCount: null, definition: null, secrets: null };
  const card = await renderApproval({}, changes);
  const shown = within(card).getByRole("region", { name: "Changes in production" });
  await within(shown).findByText("What changes in production", { exact: false });
  expect(shown.textContent).toContain("What changes in production: 60 commits");
  expect(shown.textContent).not.toContain("Secrets");
});

test("a decided approval is not compared again", async () => {
  const card = await renderApproval({ status: "approved" });
  expect(within(card).queryByRole("region", { name: "Changes in production" })).toBeNull();
});
