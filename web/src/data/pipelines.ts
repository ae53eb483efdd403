/** Pipelines, their definitions, and the actions on them. */
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { Pipeline } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

export const PIPELINES_PAGE = 100;

export type PipelineFilter = { search?: string; status?: string };

/** The URL may contain an unknown status; the server rejects it. */
function toQuery({ search, status }: PipelineFilter) {
  return { search, status: status as Pipeline["status"] | undefined };
}

/** One page of the list; pages count from 0. */
export function pipelinesQuery(org: string, filter: PipelineFilter = {}, number = 0) {
  return queryOptions({
    queryKey: resourceKey(org, "pipelines", "list", filter, number),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/pipelines", {
          params: {
            path: { orgId: org },
            query: { ...toQuery(filter), limit: PIPELINES_PAGE, offset: number * PIPELINES_PAGE },
          },
        }),
      ),
  });
}

export function pipelineQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "pipelines", "one", pipelineId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/pipelines/{pipelineId}", {
          params: { path: { orgId: org, pipelineId } },
        }),
      ),
  });
}

/** The list with infinite scrolling. */
export function pipelinePagesQuery(org: string, filter: PipelineFilter = {}) {
  return infiniteQueryOptions({
    queryKey: resourceKey(org, "pipelines", "pages", filter),
    queryFn: ({ pageParam }) =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/pipelines", {
          params: {
            path: { orgId: org },
            query: { ...toQuery(filter), limit: PIPELINES_PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}

export function definitionQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "pipelines", "definition", pipelineId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", {
          params: { path: { orgId: org, pipelineId } },
        }),
      ),
  });
}

/** Diagnostics of a definition, cached by its text. */
export function diagnosticsQuery(org: string, source: string) {
  return queryOptions({
    queryKey: resourceKey(org, "pipelines", "diagnostics", source),
    queryFn: () =>
      fetchData(
        api.POST("/api/v1/organizations/{orgId}/pipelines/validate", {
          params: { path: { orgId: org } },
          body: { definition: source },
        }),
      ),
  });
}

/** The pipeline's repository, with the problems of its newest definitions. */
export function repositoryQuery(org: string, repositoryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "repositories", "one", repositoryId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/repositories/{repositoryId}", {
          params: { path: { orgId: org, repositoryId } },
        }),
      ),
  });
}

/** Pauses or resumes new deployments. */
export function usePausePipeline(org: string, pipelineId: string) {
  return useOrgMutation(
    org,
    ["pipelines", "deployments"],
    ({ pause, reason }: { pause: boolean; reason?: string }) => {
      const params = { path: { orgId: org, pipelineId } };
      return pause
        ? fetchData(
            api.POST("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/stop", {
              params,
              body: { reason },
            }),
          )
        : fetchData(
            api.POST("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/resume", {
              params,
              body: { reason },
            }),
          );
    },
  );
}

export function useSaveDefinition(org: string, pipelineId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (definition: string) =>
      fetchData(
        api.PUT("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", {
          params: { path: { orgId: org, pipelineId } },
          body: { definition },
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: resourceKey(org, "pipelines") }),
  });
}
