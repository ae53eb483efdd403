/** What failed in a deployment, in one sentence. */
import type { Deployment, DeploymentStage, DeploymentStep } from "@/api/types";
import { formatCause, listStageSteps, type StageStep } from "@/format/run";
import { capitalize } from "@/format/text";

type Attempt = DeploymentStep["attempts"][number];

export type Failure = {
  stage?: DeploymentStage;
  step?: DeploymentStep;
  /** The attempt that failed; undefined if none started. */
  shown?: Attempt;
};

/** The failure of the step shown; otherwise, if the deployment failed, that of its last failed step. */
export function findFailure(
  deployment: Deployment,
  shown: StageStep | undefined,
  attempt: number | undefined,
): Failure | null {
  const found = shown && failureOf(shown, attempt);
  if (found) return found;
  if (deployment.status !== "failed") return null;
  const last = listStageSteps(deployment).findLast(({ step }) => step.status === "failed");
  return (last && failureOf(last, undefined)) ?? {};
}

function failureOf({ stage, step }: StageStep, attempt: number | undefined): Failure | null {
  const shown = step.attempts.find(each => each.number === attempt) ?? step.attempts.at(-1);
  const hasFailed = shown ? shown.status === "failed" : step.status === "failed";
  return hasFailed ? { stage, step, shown } : null;
}

/** The exit code stands in the sentence. */
const EXIT_CODE = /^exited with \d+$/;

/** "Check failed in staging: exit code 1", "There is no commit feature/nope in the repository". */
export function describeFailure(deployment: Deployment, { stage, step, shown }: Failure): string {
  if (!step) {
    const { detail, cause } = deployment;
    return capitalize(detail || (cause ? formatCause(cause) : "the deployment failed"));
  }
  const where = stage && stage.kind !== "environment" ? ` in ${stage.name}` : "";
  const details = [shown?.detail, step.detail].filter(each => each && !EXIT_CODE.test(each));
  const cause = step.cause && step.cause !== "step_failed" ? formatCause(step.cause).toLowerCase() : null;
  const code = shown?.exitCode ? `exit code ${shown.exitCode}` : null;
  const why = details[0] ?? cause ?? code;
  return `${step.name} failed${where}${why ? `: ${why}` : ""}`;
}
