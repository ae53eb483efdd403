import { expect, test } from "vitest";
import type { Approval, Deployment } from "@/api/types";
import { findStageOccupants } from "./stageOccupants";

function deployment(id: string, status: string): Deployment {
  const stages = [{ name: "production", kind: "stage", status }];
  return { id, status, stages, blockedBy: [] } as unknown as Deployment;
}

const NEWER = deployment("dep_2", "queued");
const RUNNING = deployment("dep_1", "running");
const PENDING = { deploymentId: "dep_2", stage: "production" } as Approval;

test("a running deployment occupies its stage before a newer one that is queued", () => {
  expect(findStageOccupants([NEWER, RUNNING]).get("production")?.deployment).toBe(RUNNING);
});

test("a queued deployment with a pending approval for the stage needs approval", () => {
  expect(findStageOccupants([NEWER], [PENDING]).get("production")?.needsApproval).toBe(true);
  expect(findStageOccupants([NEWER], [{ ...PENDING, stage: "staging" }]).get("production")).toMatchObject({
    needsApproval: false,
  });
});
