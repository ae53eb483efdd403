/** What a newcomer has done in a demo, as the history tells it. */
import { queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { Event } from "@/api/types";
import { key } from "./keys";
import { useMe } from "./me";

/** Of one kind, newest first; the first time is among them for as long as anybody tries things out. */
const EVENTS_MAX = 50;

/** A kind of event that one causes oneself, and in which environment if that matters. */
export type Deed = { kind: string; environment?: string };

function didIt(deed: Deed, events: Event[]): boolean {
  const inPlace = (event: Event) =>
    event.subjects.some(each => each.type === "environment" && each.name === deed.environment);
  return deed.environment ? events.some(inPlace) : events.length > 0;
}

/** Whether each has been done, by the one signed in. What is done is not asked about again. */
export function useDone(org: string, deeds: Deed[]): boolean[] {
  const actor = useMe().user.id;
  const found = useQueries({
    queries: deeds.map(deed => ({
      queryKey: key(org, "events", "done", actor, deed),
      queryFn: async () => {
        const query = { actor, kind: deed.kind, limit: EVENTS_MAX };
        const path = { orgId: org };
        const page = await body(api.GET("/api/v1/organizations/{orgId}/events", { params: { path, query } }));
        return didIt(deed, page.data);
      },
      enabled: (query: { state: { data?: boolean } }) => query.state.data !== true,
    })),
  });
  return found.map(each => each.data === true);
}

/** The deployment that failed last. */
export function useFailed(org: string): string | undefined {
  const query = queryOptions({
    queryKey: key(org, "deployments", "failed"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/deployments", {
          params: { path: { orgId: org }, query: { status: "failed", limit: 1 } },
        }),
      ),
  });
  return useQuery(query).data?.data[0]?.id;
}
