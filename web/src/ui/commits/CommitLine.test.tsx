import { screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { removePage, renderPage } from "../../../tests/renderPage";
import { CommitLine } from "./CommitLine";

const HASH = "4d6d0ebe".repeat(5);
const COMMIT = {
  commitId: HASH,
  title: "Make the shop green",
  author: { name: "Ada Lovelace" },
  authoredAt: new Date(Date.now() - 355_000).toISOString(),
  url: "https://forge.test/shop/commit/4d6d0ebe",
};

afterEach(removePage);

test("a commit is shown by its title, author, branch and age, with the hash last", async () => {
  renderPage(() => (
    <CommitLine commitId={HASH} commit={COMMIT} branch="main" compareUrl="https://forge.test/c" />
  ));
  const title = await screen.findByRole("link", { name: "Make the shop green" });
  expect(title.getAttribute("href")).toBe(COMMIT.url);
  expect(title.parentElement?.textContent).toBe("Make the shop greenALAda Lovelacemain5 min ago4d6d0ebe");
  expect(screen.getByRole("button", { name: "Copy commit 4d6d0ebe" })).toBeTruthy();
  expect(screen.getByRole("link", { name: /^Compare/ }).getAttribute("href")).toBe("https://forge.test/c");
});

test("the title of a deployed commit opens the deployment, and an icon the forge", async () => {
  renderPage(() => <CommitLine commitId={HASH} commit={COMMIT} deploymentId="dep_1" />);
  const title = await screen.findByRole("link", { name: "Make the shop green" });
  expect(title.getAttribute("href")).toBe("/o/acme/deployments/dep_1");
  expect(screen.getByRole("link", { name: /on the forge$/ }).getAttribute("href")).toBe(COMMIT.url);
});

test("an unknown commit is shown by its short hash, and a branch by its name", async () => {
  renderPage(() => (
    <>
      <CommitLine commitId={HASH} commit={null} deploymentId="dep_1" />
      <CommitLine commitId="feature/dark" />
    </>
  ));
  expect((await screen.findByRole("link")).textContent).toBe("4d6d0ebe");
  expect(screen.getByText("feature/dark")).toBeTruthy();
});
