/** Finds the deployment in progress of each stage. */
import type { Deployment, DeploymentStage } from "@/api/types";
import { isOver } from "@/format/run";

export type Inside = { deployment: Deployment; stage: DeploymentStage };

const PRESENT = ["running", "cancelling", "waiting", "queued"];

/** Returns by stage name the deployment running in it, else the newest one waiting for it. Expects the newest first. */
export function insideStages(deployments: Deployment[]): Map<string, Inside> {
  const found = new Map<string, Inside>();
  for (const deployment of deployments) {
    if (isOver(deployment.status)) continue;
    for (const stage of deployment.stages) {
      if (stage.kind !== "stage" || !PRESENT.includes(stage.status)) continue;
      const other = found.get(stage.name);
      if (!other || rank(stage) < rank(other.stage)) found.set(stage.name, { deployment, stage });
    }
  }
  return found;
}

function rank(stage: DeploymentStage): number {
  return PRESENT.indexOf(stage.status);
}
