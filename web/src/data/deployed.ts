/** What is deployed to each stage and environment. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import { key } from "./keys";

const PAGE = 50;

function page(org: string, cursor: string | undefined) {
  const query = { limit: PAGE, ...(cursor ? { cursor } : {}) };
  return body(api.GET("/api/v1/organizations/{orgId}/deployed", { params: { path: { orgId: org }, query } }));
}

export function deployedPages(org: string) {
  return infiniteQueryOptions({
    queryKey: key(org, "deployed"),
    queryFn: ({ pageParam }) => page(org, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}
