/** What is deployed to each stage and environment. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, fetchBody } from "@/api/client";
import { resourceKey } from "./queryKeys";

const PAGE = 50;

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
