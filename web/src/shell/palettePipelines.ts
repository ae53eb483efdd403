import type { Deployed, Pipeline } from "@/api/types";
import { type Access, listReadableEnvironments } from "@/data/permissions";
import { formatHolder } from "@/format/holder";

/** A pipeline in the command palette, with the environments that the caller can open. */
type PalettePipeline = {
  id: string;
  slug: string;
  name: string;
  environments: { id: string; envName: string; state?: string }[];
};

/**
 * Combines the loaded pipelines with those that the server found by name. Only the first pages are loaded; the state of
 * environments of other pipelines is unknown.
 */
export function listPalettePipelines(
  access: Access,
  loaded: Deployed[],
  searched: Pick<Pipeline, "id" | "slug" | "name" | "environments">[],
): PalettePipeline[] {
  const others = searched.filter(each => !loaded.some(it => it.pipelineId === each.id));
  return [
    ...loaded.map(({ pipelineId, slug, name, environments }) => {
      const readable = listReadableEnvironments(access, {
        slug,
        environments: environments.map(each => each.envName),
      });
      return {
        id: pipelineId,
        slug,
        name,
        environments: environments
          .filter(each => readable.includes(each.envName))
          .map(({ environmentId, envName, holder, contact }) => ({
            id: environmentId,
            envName,
            state: holder ? `held by ${formatHolder({ holder, contact })}` : "free",
          })),
      };
    }),
    ...others.map(each => ({
      id: each.id,
      slug: each.slug,
      name: each.name,
      environments: listReadableEnvironments(access, each).map(envName => ({
        id: `${each.id}/${envName}`,
        envName,
      })),
    })),
  ];
}
