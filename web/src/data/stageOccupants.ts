/** Finds the deployment in progress of each stage. */
import type { Approval, Deployment, DeploymentStage } from "@/api/types";
import { isFinished } from "@/format/run";

export type StageOccupant = {
  deployment: Deployment;
  stage: DeploymentStage;
  /** Whether the deployment waits for an approval before it enters the stage. */
  needsApproval: boolean;
};

const OCCUPYING = ["running", "cancelling", "waiting", "queued"];

/**
 * Returns by stage name the deployment running in it, else the newest one waiting for it. Expects the newest first.
 * Deployments in lists do not say what blocks them, so `approvals` are the pending ones.
 */
export function findStageOccupants(
  deployments: Deployment[],
  approvals: Approval[] = [],
): Map<string, StageOccupant> {
  const found = new Map<string, StageOccupant>();
  for (const deployment of deployments) {
    if (isFinished(deployment.status)) continue;
    for (const stage of deployment.stages) {
      if (stage.kind !== "stage" || !OCCUPYING.includes(stage.status)) continue;
      const other = found.get(stage.name);
      if (other && rank(stage) >= rank(other.stage)) continue;
      const needsApproval = approvals.some(
        each => each.deploymentId === deployment.id && each.stage === stage.name,
      );
      found.set(stage.name, { deployment, stage, needsApproval });
    }
  }
  return found;
}

function rank(stage: DeploymentStage): number {
  return OCCUPYING.indexOf(stage.status);
}
