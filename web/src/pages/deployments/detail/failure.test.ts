import { expect, test } from "vitest";
import type { Deployment, DeploymentStep } from "@/api/types";
import { describeFailure, findFailure } from "./failure";

function step(name: string, status: string, more: Partial<DeploymentStep> = {}): DeploymentStep {
  return { id: name, name, status, attempts: [], cause: null, detail: null, ...more } as DeploymentStep;
}

function deployment(steps: DeploymentStep[], more: Partial<Deployment> = {}): Deployment {
  const stages = steps.length > 0 ? [{ name: "staging", kind: "stage", steps }] : [];
  return { status: "failed", stages, cause: "step_failed", detail: null, ...more } as unknown as Deployment;
}

const EXITED = {
  number: 1,
  status: "failed",
  exitCode: 1,
  detail: "exited with 1",
} as DeploymentStep["attempts"][number];

function sentence(it: Deployment): string | null {
  const failure = findFailure(it, undefined, undefined);
  return failure && describeFailure(it, failure);
}

test("a failed step is described by its stage and exit code", () => {
  const it = deployment([step("Build", "succeeded"), step("Check", "failed", { attempts: [EXITED] })]);
  expect(sentence(it)).toBe("Check failed in staging: exit code 1");
});

test("a cause other than the exit code is named", () => {
  const late = step("Check", "failed", { cause: "timed_out", attempts: [{ ...EXITED, exitCode: null }] });
  expect(sentence(deployment([late]))).toBe("Check failed in staging: timed out");
});

test("a deployment without steps is described once, by its detail", () => {
  const detail = "there is no commit feature/nope in the repository of this pipeline";
  expect(sentence(deployment([], { cause: "commit_not_found", detail }))).toBe(
    "There is no commit feature/nope in the repository of this pipeline",
  );
  expect(sentence(deployment([], { cause: "commit_not_found" }))).toBe("Commit not found");
});

test("the step shown comes first, and a deployment that succeeded has no failure", () => {
  const [first, second] = [step("A", "failed"), step("B", "failed")];
  const it = deployment([first, second]);
  const stage = it.stages[0];
  expect(stage && findFailure(it, { stage, step: first }, undefined)?.step).toBe(first);
  expect(findFailure(deployment([], { status: "succeeded" }), undefined, undefined)).toBeNull();
});
