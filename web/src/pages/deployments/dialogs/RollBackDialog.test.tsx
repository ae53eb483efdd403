import { screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Deployment } from "@/api/types";
import { expectToast, removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { RollBackDialog } from "./RollBackDialog";

const HASH = { old: "a1".repeat(20), new: "b2".repeat(20) };

function deployment(number: number, hash: string, title: string): Deployment {
  const stages = [{ name: "production", kind: "stage", status: "succeeded", tries: 1 }];
  const commit = { commitId: hash, title, author: { name: "Ada" }, authoredAt: "2026-11-18T12:00:00Z" };
  const id = `dep_${number}`;
  return { id, number, commitId: hash, resolvedCommitId: hash, commit, stages, rollback: null } as never;
}

afterEach(removePage);

test("the dialog names the commit that the stage goes back to, and sends its deployment", async () => {
  const newest = deployment(2, HASH.new, "Make the shop green");
  const recent = [newest, deployment(1, HASH.old, "Open the shop")];
  const sent = stubServer({
    "POST /deployments/dep_2/stages/production/rollback": { data: { id: "dep_3", number: 3 } },
  });
  renderPage(() => (
    <RollBackDialog
      org="acme"
      deployment={newest}
      recent={recent}
      stages={["production"]}
      onClose={() => {}}
    />
  ));
  const text = await screen.findByText(/^Redeploys/);
  expect(text.textContent).toBe(
    "Redeploys “Open the shop” (a1a1a1a1) to production, in place of “Make the shop green” (b2b2b2b2).",
  );
  screen.getByRole("button", { name: "Roll back production" }).click();
  await expectToast("Rollback of production started as deployment #3");
  expect(sent.find(each => each.call.startsWith("POST"))).toMatchObject({
    call: "POST /deployments/dep_2/stages/production/rollback",
    body: { to: "dep_1" },
  });
});
