/** Actions of the command palette. Each leads to a page, which opens the dialog of the action. */
import type { Approval, Deployed } from "@/api/types";
import { mayDecideApproval, stageTargets } from "@/data/deploymentAccess";
import { type Access, environmentTarget, may } from "@/data/permissions";
import { formatHolder } from "@/format/holder";

export type PaletteAction = {
  id: string;
  label: string;
  description: string;
  to: string;
  do: string;
  approval?: string;
};

/** The actions that the caller may take on these pipelines, environments and pending approvals. */
export function listPaletteActions(
  access: Access,
  me: string,
  org: string,
  pipelines: Deployed[],
  approvals: Approval[],
): PaletteAction[] {
  const base = `/o/${encodeURIComponent(org)}`;
  return [
    ...approvals
      .filter(each => mayDecideApproval(access, each, pipelines))
      .flatMap(each => {
        const name = pipelines.find(it => it.pipelineId === each.pipelineId)?.name ?? "Pipeline";
        const title = `${name} → ${each.stage}`;
        const to = `${base}/approvals`;
        const rest = { description: each.commitId ?? "Approval", to, approval: each.id };
        return [
          { ...rest, id: `approve ${each.id}`, label: `Approve ${title}`, do: "approve" },
          { ...rest, id: `reject ${each.id}`, label: `Reject ${title}`, do: "reject" },
        ];
      }),
    ...pipelines.flatMap(pipeline => [
      ...listPipelineActions(access, base, pipeline),
      ...pipeline.environments.flatMap(each => listEnvironmentActions(access, me, base, pipeline, each)),
    ]),
  ];
}

function listPipelineActions(access: Access, base: string, pipeline: Deployed): PaletteAction[] {
  const { slug, name, stages } = pipeline;
  const mayDeploy =
    stages.length > 0 && stageTargets(pipeline).every(stage => may(access, "stages:deploy", stage));
  if (!mayDeploy) return [];
  const to = `${base}/pipelines/${slug}`;
  return [{ id: `deploy ${slug}`, label: `Deploy ${name}`, description: slug, to, do: "deploy" }];
}

function listEnvironmentActions(
  access: Access,
  me: string,
  base: string,
  { slug, name }: Deployed,
  { environmentId, envName, holder, contact }: Deployed["environments"][number],
): PaletteAction[] {
  const target = environmentTarget(slug, envName);
  if (!may(access, "environments:claim", target)) return [];
  const to = `${base}/environments/${slug}/${envName}`;
  const make = (action: string, label: string) => ({
    id: `${action} ${environmentId}`,
    label,
    description: holder ? `${name}, held by ${formatHolder({ holder, contact })}` : `${name}, free`,
    to,
    do: action,
  });
  if (!holder) return [make("claim", `Claim ${envName}`)];
  if (holder.id === me)
    return [
      make("deploy", `Deploy to ${envName}`),
      make("release", `Release ${envName}`),
      make("extend", `Extend ${envName}`),
      make("hand-over", `Hand over ${envName}`),
    ];
  return [
    make("queue", `Join queue for ${envName}`),
    ...(may(access, "environments:force_claim", target) ? [make("take-over", `Take over ${envName}`)] : []),
  ];
}
