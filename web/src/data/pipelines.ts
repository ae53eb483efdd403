/** Pipelines. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import { key } from "./keys";

const PAGE = 50;

export type PipelineFilter = { search?: string; status?: string };

export function pipelinesQuery(org: string, filter: PipelineFilter = {}) {
  return queryOptions({
    queryKey: key(org, "pipelines", "list", filter),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/pipelines", {
          params: { path: { orgId: org }, query: { ...filter, limit: PAGE } },
        }),
      ),
  });
}

export function pipelineQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: key(org, "pipelines", "one", pipelineId),
    queryFn: () =>
      data(
        api.GET("/api/v1/organizations/{orgId}/pipelines/{pipelineId}", {
          params: { path: { orgId: org, pipelineId } },
        }),
      ),
  });
}
