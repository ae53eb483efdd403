/** Failed deployments for Home. */
import type { Deployed, DeployedEnvironment, Deployment, FailedDeployment } from "@/api/types";
import { formatCause } from "@/format/run";

export type Failure = {
  failed: FailedDeployment;
  pipeline: Pick<Deployed, "pipelineId" | "slug" | "name" | "stages">;
  /** The stage that failed; undefined if the deployment failed before its first stage, or in an environment. */
  stage?: string;
  environment?: DeployedEnvironment;
};

/** Failed deployments that no later one has replaced, newest first. */
export function listFailures(pipelines: Deployed[]): Failure[] {
  const found = pipelines.flatMap(pipeline => {
    const { stages, failed, environments } = pipeline;
    return [
      ...stages.map(stage => ({ failed: stage.failed, pipeline, stage: stage.name })),
      // A deployment may also fail before its first stage.
      { failed: isInStage(stages, failed) ? undefined : failed, pipeline },
      ...environments.map(each => ({ failed: each.failed, pipeline, environment: each })),
    ];
  });
  return found
    .flatMap(each => (each.failed ? [{ ...each, failed: each.failed }] : []))
    .sort((a, b) => b.failed.at.localeCompare(a.failed.at));
}

function isInStage(stages: Deployed["stages"], failed: FailedDeployment | undefined): boolean {
  return stages.some(stage => stage.failed?.deploymentId === failed?.deploymentId);
}

/** Where it failed: "Cart · staging". */
export function formatPlace({ pipeline, stage, environment }: Failure): string {
  const place = stage ?? environment?.envName;
  return place ? `${pipeline.name} · ${place}` : pipeline.name;
}

/** One line that says why: `step "check": exited with 126`. */
export function formatFailureCause(deployment: Pick<Deployment, "cause" | "detail"> | undefined): string {
  const detail = deployment?.detail?.split("\n")[0];
  return detail || (deployment?.cause ? formatCause(deployment.cause) : "");
}
