import type { Deployed, FailedDeployment } from "@/api/types";

export type Failure = { failed: FailedDeployment; name: string };

/** Failed deployments that no later one has replaced, newest first. */
export function listFailures(pipelines: Deployed[]): Failure[] {
  const found = pipelines.flatMap(({ name, stages, failed, environments }) => [
    ...stages.map(stage => ({ failed: stage.failed, name: `${name} → ${stage.name}` })),
    // A deployment may also fail before its first stage.
    { failed: isInStage(stages, failed) ? undefined : failed, name },
    ...environments.map(each => ({ failed: each.failed, name: `${name} in ${each.envName}` })),
  ]);
  return found
    .flatMap(each => (each.failed ? [{ failed: each.failed, name: each.name }] : []))
    .sort((a, b) => b.failed.at.localeCompare(a.failed.at));
}

function isInStage(stages: Deployed["stages"], failed: FailedDeployment | undefined): boolean {
  return stages.some(stage => stage.failed?.deploymentId === failed?.deploymentId);
}
