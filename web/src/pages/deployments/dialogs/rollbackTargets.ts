/** Deployments to which a stage can be rolled back. */
import type { Deployment } from "@/api/types";

/** Stages that this deployment has entered. */
export function enteredStages(deployment: Deployment): string[] {
  return deployment.stages.filter(each => each.kind === "stage" && each.tries > 0).map(each => each.name);
}

/** Earlier deployments that succeeded in the stage, newest first. */
export function rollbackTargets(recent: Deployment[], deployment: Deployment, stage: string): Deployment[] {
  return recent.filter(
    each =>
      each.number < deployment.number &&
      each.stages.some(
        other => other.name === stage && other.kind === "stage" && other.status === "succeeded",
      ),
  );
}

/** The target that the server chooses: the newest one that was not rolled back and deployed something else. */
export function defaultRollbackTarget(
  recent: Deployment[],
  deployment: Deployment,
  stage: string,
): Deployment | undefined {
  const byId = new Map([...recent, deployment].map(each => [each.id, each]));
  const originOf = (id: string): string => {
    const rollback = byId.get(id)?.rollback;
    return rollback?.stage === stage ? originOf(rollback.to) : id;
  };
  const rolledBack = new Set(
    recent.flatMap(each => (each.rollback?.stage === stage ? [each.rollback.of] : [])),
  );
  return rollbackTargets(recent, deployment, stage).find(
    each => !rolledBack.has(each.id) && originOf(each.id) !== originOf(deployment.id),
  );
}
