import type { Deployed, DeployedEnvironment } from "@/api/types";

export type EnvironmentEntry = { pipeline: Deployed; environment: DeployedEnvironment };
export type ShownOnHome = { pipelines: Deployed[]; environments: EnvironmentEntry[] };

/** Pipelines whose name contains the text, and environments whose name, pipeline, holder or reason does. */
export function filterDeployed(all: Deployed[], text: string): ShownOnHome {
  const wanted = text.trim().toLowerCase();
  const has = (...texts: (string | null | undefined)[]) =>
    texts.some(each => each?.toLowerCase().includes(wanted));
  return {
    pipelines: all.filter(({ name, slug }) => has(name, slug)),
    environments: all.flatMap(pipeline =>
      pipeline.environments
        .filter(each => has(pipeline.name, pipeline.slug, each.envName, each.holder?.name, each.context))
        .map(environment => ({ pipeline, environment })),
    ),
  };
}
