/** What is deployed to each stage and environment. */
import { infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";
import { api, fetchBody } from "@/api/client";
import type { DeployedEnvironment } from "@/api/types";
import { usePermissionSomewhere } from "./me";
import { resourceKey } from "./queryKeys";

/** Home shows all pipelines: few organizations have more than fit one page. */
const PAGE = 200;

function fetchPage(org: string, cursor: string | undefined) {
  const query = { limit: PAGE, ...(cursor ? { cursor } : {}) };
  return fetchBody(
    api.GET("/api/v1/organizations/{orgId}/deployed", { params: { path: { orgId: org }, query } }),
  );
}

export function deployedQuery(org: string) {
  return infiniteQueryOptions({
    queryKey: resourceKey(org, "deployed"),
    queryFn: ({ pageParam }) => fetchPage(org, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}

/** What is deployed to an environment; undefined while it is unknown, and in organizations with very many pipelines. */
export function useDeployedEnvironment(org: string, environmentId: string): DeployedEnvironment | undefined {
  const mayRead = usePermissionSomewhere("deployments:read");
  return useInfiniteQuery({
    ...deployedQuery(org),
    enabled: mayRead,
    select: ({ pages }) =>
      pages
        .flatMap(page => page.data)
        .flatMap(each => each.environments)
        .find(each => each.environmentId === environmentId),
  }).data;
}
