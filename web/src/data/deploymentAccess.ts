/** What the current user may do with a deployment. */
import type { Approval, Deployed, Deployment, Pipeline } from "@/api/types";
import {
  type Access,
  type AccessTarget,
  environmentTarget,
  may,
  ORGANIZATION,
  pipelineTarget,
  stageTarget,
} from "./permissions";

type PipelineStages = { slug: string; stages: Pick<Pipeline["stages"][number], "name">[] };
type DeploymentOf = Pick<Deployment, "envName">;

/** The stages of a pipeline, as resources; the pipeline itself if it has none. */
export function stageTargets(pipeline: PipelineStages | undefined): AccessTarget[] {
  if (!pipeline) return [ORGANIZATION];
  if (pipeline.stages.length === 0) return [pipelineTarget(pipeline.slug)];
  return pipeline.stages.map(stage => stageTarget(pipeline.slug, stage.name));
}

/** The resources that a deployment affects: its environment, or the stages of its pipeline. */
export function deploymentTargets(
  deployment: DeploymentOf,
  pipeline: PipelineStages | undefined,
): AccessTarget[] {
  if (deployment.envName != null) return [environmentTarget(pipeline?.slug, deployment.envName)];
  return stageTargets(pipeline);
}

/** Which stages an operation affects: all, one, or one and those after it. */
export type AffectedStages = "all" | { only: string } | { from: string };

/** Whether the user may operate the deployment. In stages this also requires permission to deploy to them. */
export function mayOperate(
  access: Access,
  deployment: DeploymentOf,
  pipeline: PipelineStages | undefined,
  affected: AffectedStages,
): boolean {
  const isInStages = deployment.envName == null;
  return selectStages(deploymentTargets(deployment, pipeline), affected).every(
    target =>
      may(access, "deployments:operate", target) && (!isInStages || may(access, "stages:deploy", target)),
  );
}

/** Builds and environments are not stages of the pipeline: then the operation affects everything. */
function selectStages(targets: AccessTarget[], affected: AffectedStages): AccessTarget[] {
  if (affected === "all") return targets;
  const name = "only" in affected ? affected.only : affected.from;
  const at = targets.findIndex(target => target.kind === "stage" && target.name === name);
  if (at < 0) return targets;
  return "only" in affected ? targets.slice(at, at + 1) : targets.slice(at);
}

type ApprovalOf = Pick<Approval, "stage">;

/** The resource that an approval belongs to: the stage, or the environment of the same name. */
export function approvalTarget(
  approval: ApprovalOf,
  deployment: DeploymentOf | undefined,
  pipeline: string | undefined,
): AccessTarget {
  return deployment?.envName != null
    ? environmentTarget(pipeline, deployment.envName)
    : stageTarget(pipeline, approval.stage);
}

type PipelineParts = Pick<Deployed, "pipelineId" | "slug" | "stages" | "environments">;

/** Whether the user may decide a pending approval of one of these pipelines. An approval names a stage or an environment. */
export function mayDecideApproval(
  access: Access,
  approval: Pick<Approval, "pipelineId" | "stage">,
  pipelines: PipelineParts[],
): boolean {
  const pipeline = pipelines.find(each => each.pipelineId === approval.pipelineId);
  const isEnvironment = pipeline?.environments.some(each => each.envName === approval.stage) ?? false;
  const isStage = !isEnvironment || pipeline?.stages.some(each => each.name === approval.stage);
  const envNames = [...(isStage ? [null] : []), ...(isEnvironment ? [approval.stage] : [])];
  return envNames.some(envName =>
    may(access, "approvals:decide", approvalTarget(approval, { envName }, pipeline?.slug)),
  );
}
