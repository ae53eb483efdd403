import { screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Deployment } from "@/api/types";
import { removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { RollBackDialog } from "./RollBackDialog";

const FIRST = { id: "dep_1", pipelineId: "pl_1", number: 1, stages: [] } as unknown as Deployment;

afterEach(removePage);

test("without an earlier success there is nothing to roll back to", async () => {
  const pagination = { limit: 100, offset: 0, total: 1, hasMore: false, nextCursor: null };
  stubServer({ "GET /pipelines/pl_1/deployments": { data: [FIRST], pagination } });
  renderPage(() => <RollBackDialog org="acme" deployment={FIRST} stages={["staging"]} onClose={() => {}} />);
  await screen.findByText(/No other deployment has succeeded in staging/);
  const button = screen.getByRole("button", { name: "Roll back staging" }) as HTMLButtonElement;
  expect(button.disabled).toBe(true);
});
