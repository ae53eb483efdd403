/** The audit log. */
import { infiniteQueryOptions, queryOptions, useMutation } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { EventKind } from "@/api/kinds.gen";
import { resourceKey } from "./queryKeys";

const PAGE = 50;

export type EventFilter = {
  kind?: string;
  actor?: string;
  pipeline?: string;
  deployment?: string;
  environment?: string;
  from?: string;
  to?: string;
};

export function eventsQuery(org: string, filter: EventFilter) {
  return infiniteQueryOptions({
    queryKey: resourceKey(org, "events", filter),
    queryFn: ({ pageParam }) => {
      // The URL may contain an unknown kind; the server rejects it.
      const kind = filter.kind as EventKind | undefined;
      const query = { ...filter, kind, limit: PAGE, cursor: pageParam };
      return fetchBody(
        api.GET("/api/v1/organizations/{orgId}/events", { params: { path: { orgId: org }, query } }),
      );
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}

export function eventQuery(org: string, eventId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "events", "one", eventId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/events/{eventId}", {
          params: { path: { orgId: org, eventId } },
        }),
      ),
    // Events never change.
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function useVerifyAuditLog(org: string) {
  return useMutation({
    mutationFn: () =>
      fetchData(
        api.POST("/api/v1/organizations/{orgId}/events/verify", { params: { path: { orgId: org } } }),
      ),
  });
}

export function exportUrl(org: string): string {
  return `/api/v1/organizations/${encodeURIComponent(org)}/events/export`;
}
