/** Progress of the demo's checklist, from deployments and events. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, fetchBody } from "@/api/client";
import type { EventKind } from "@/api/kinds.gen";
import type { Deployment, Event, Me } from "@/api/types";
import { useMe } from "./me";
import { resourceKey } from "./queryKeys";

/** Newest first; a demo has fewer. */
const DEPLOYMENTS_MAX = 200;
const EVENTS_MAX = 50;

/** Steps of the checklist, in order. */
export const DEMO_STEPS = ["claimed", "takenOver", "approved", "rolledBack", "fixed"] as const;

/** Deployments and events that the steps are derived from: outcomes, not requests. */
export type DemoFacts = {
  /** Deployments that have succeeded. */
  succeeded: Pick<Deployment, "id" | "envName" | "trigger" | "actor">[];
  /** Events; `voted` and `proposed` are those of the current user. */
  overridden: { data: { endedBy?: unknown } }[];
  voted: Pick<Event, "subjects">[];
  proposed: Pick<Event, "subjects">[];
  opened: Pick<Event, "subjects">[];
};

/** Which steps this user has completed. */
export function completedDemoSteps(facts: DemoFacts, me: Pick<Me["user"], "id" | "name">): boolean[] {
  const mine = facts.succeeded.filter(each => each.actor.id === me.id);
  const approved = collectSubjects(facts.voted, "deployment");
  const proposed = collectSubjects(facts.proposed, "analysis");
  const has: Record<(typeof DEMO_STEPS)[number], boolean> = {
    claimed: mine.some(each => each.envName === "qa-2"),
    // The actor of a scheduled takeover is the server, so compare the user who requested it.
    takenOver: facts.overridden.some(each => each.data.endedBy === me.name),
    approved: facts.succeeded.some(each => approved.has(each.id)),
    rolledBack: mine.some(each => each.trigger === "rollback"),
    fixed: [...collectSubjects(facts.opened, "analysis")].some(each => proposed.has(each)),
  };
  return DEMO_STEPS.map(step => has[step]);
}

function collectSubjects(events: Pick<Event, "subjects">[], type: string): Set<string> {
  return new Set(events.flatMap(event => event.subjects.filter(each => each.type === type).map(it => it.id)));
}

/** Whether each step is completed. Stops fetching once all are. */
export function useCompletedDemoSteps(org: string): boolean[] {
  const me = useMe().user;
  const path = { orgId: org };
  const events = async (kind: EventKind, actor?: string) => {
    const query = { kind, actor, limit: EVENTS_MAX };
    return (await fetchBody(api.GET("/api/v1/organizations/{orgId}/events", { params: { path, query } })))
      .data;
  };
  const deployments = async () => {
    const query = { status: "succeeded", limit: DEPLOYMENTS_MAX } as const;
    return (
      await fetchBody(api.GET("/api/v1/organizations/{orgId}/deployments", { params: { path, query } }))
    ).data;
  };
  const done = useQuery({
    queryKey: resourceKey(org, "events", "done", me.id),
    queryFn: async () => {
      const [succeeded, overridden, voted, proposed, opened] = await Promise.all([
        deployments(),
        events("session_overridden"),
        events("approval_voted", me.id),
        events("fix_pull_request_requested", me.id),
        events("fix_pull_request_opened"),
      ]);
      return completedDemoSteps({ succeeded, overridden, voted, proposed, opened }, me);
    },
    enabled: query => !query.state.data?.every(Boolean),
  });
  return done.data ?? DEMO_STEPS.map(() => false);
}

/** ID of the failed deployment of the demo's branch `broken`; the user may have caused other failures. */
export function useBrokenDeployment(org: string): string | undefined {
  const query = queryOptions({
    queryKey: resourceKey(org, "deployments", "broken"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/deployments", {
          params: { path: { orgId: org }, query: { status: "failed", commit: "broken", limit: 1 } },
        }),
      ),
  });
  return useQuery(query).data?.data[0]?.id;
}
