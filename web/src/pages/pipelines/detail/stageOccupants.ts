/** Finds the deployment in progress of each stage. */
import type { Deployment, DeploymentStage } from "@/api/types";
import { isFinished } from "@/format/run";

export type StageOccupant = { deployment: Deployment; stage: DeploymentStage };

const OCCUPYING = ["running", "cancelling", "waiting", "queued"];

/** Returns by stage name the deployment running in it, else the newest one waiting for it. Expects the newest first. */
export function findStageOccupants(deployments: Deployment[]): Map<string, StageOccupant> {
  const found = new Map<string, StageOccupant>();
  for (const deployment of deployments) {
    if (isFinished(deployment.status)) continue;
    for (const stage of deployment.stages) {
      if (stage.kind !== "stage" || !OCCUPYING.includes(stage.status)) continue;
      const other = found.get(stage.name);
      if (!other || rank(stage) < rank(other.stage)) found.set(stage.name, { deployment, stage });
    }
  }
  return found;
}

function rank(stage: DeploymentStage): number {
  return OCCUPYING.indexOf(stage.status);
}
