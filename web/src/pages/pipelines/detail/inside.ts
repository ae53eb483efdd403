/** Who is in which stage, or about to be. */
import type { Deployment, DeploymentStage } from "@/api/types";
import { isOver } from "@/format/run";

export type Inside = { deployment: Deployment; stage: DeploymentStage };

const PRESENT = ["running", "cancelling", "waiting", "queued"];

/** By stage name: the deployment inside of it, else the one that waits for it. Newest first. */
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
