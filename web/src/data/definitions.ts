/** Checks definitions and creates pipelines from them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

/** The diagnostics of a definition, and its plan if it is valid. Nothing is saved. */
export function planQuery(org: string, definition: string) {
  const params = { path: { orgId: org } };
  return queryOptions({
    queryKey: resourceKey(org, "pipelines", "plan", definition),
    queryFn: async () => {
      const { diagnostics, valid } = await fetchData(
        api.POST("/api/v1/organizations/{orgId}/pipelines/validate", { params, body: { definition } }),
      );
      const plan = valid
        ? await fetchData(
            api.POST("/api/v1/organizations/{orgId}/pipelines/plan", { params, body: { definition } }),
          )
        : null;
      return { diagnostics, plan };
    },
    placeholderData: keepPreviousData,
  });
}

export type ExamplePipeline = { slug: string; definition: string; commitId: string };

/** Creates a pipeline from a definition and starts its first deployment. */
export function useDeployExample(org: string) {
  return useOrgMutation(
    org,
    ["pipelines", "deployed", "deployments"],
    async ({ slug, definition, commitId }: ExamplePipeline) => {
      const pipeline = await fetchData(
        api.POST("/api/v1/organizations/{orgId}/pipelines", {
          params: { path: { orgId: org } },
          body: { slug, definition },
        }),
      );
      return fetchData(
        api.POST("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", {
          params: { path: { orgId: org, pipelineId: pipeline.id } },
          body: { commitId },
        }),
      );
    },
  );
}
