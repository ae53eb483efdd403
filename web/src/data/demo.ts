/** Progress of the demo's checklist, from deployments and events. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { EventKind } from "@/api/kinds.gen";
import type { Deployment, Event, Me } from "@/api/types";
import { key } from "./keys";
import { useMe } from "./me";

/** Newest first. Those who play along in a demo make fewer in all. */
const DEPLOYMENTS_MAX = 200;
const EVENTS_MAX = 50;

/** The steps of the checklist, in order. */
export const STEPS = ["claimed", "takenOver", "approved", "rolledBack", "mended"] as const;

/** What the steps are derived from: outcomes, not requests. */
export type DemoFacts = {
  /** Deployments that have succeeded. */
  succeeded: Pick<Deployment, "id" | "envName" | "trigger" | "actor">[];
  /** Events; `voted` and `proposed` are one's own. */
  overridden: { data: { endedBy?: unknown } }[];
  voted: Pick<Event, "subjects">[];
  proposed: Pick<Event, "subjects">[];
  opened: Pick<Event, "subjects">[];
};

/** Which of the steps have happened, and were brought about by this person. */
export function completedSteps(facts: DemoFacts, me: Pick<Me["user"], "id" | "name">): boolean[] {
  const mine = facts.succeeded.filter(each => each.actor.id === me.id);
  const approved = subjects(facts.voted, "deployment");
  const proposed = subjects(facts.proposed, "analysis");
  const has: Record<(typeof STEPS)[number], boolean> = {
    claimed: mine.some(each => each.envName === "qa-2"),
    // One that was announced for later is carried out by the server: its actor is not the one who asked.
    takenOver: facts.overridden.some(each => each.data.endedBy === me.name),
    approved: facts.succeeded.some(each => approved.has(each.id)),
    rolledBack: mine.some(each => each.trigger === "rollback"),
    mended: [...subjects(facts.opened, "analysis")].some(each => proposed.has(each)),
  };
  return STEPS.map(step => has[step]);
}

function subjects(events: Pick<Event, "subjects">[], type: string): Set<string> {
  return new Set(events.flatMap(event => event.subjects.filter(each => each.type === type).map(it => it.id)));
}

/** Whether each step is done. Stops fetching when all are. */
export function useCompletedSteps(org: string): boolean[] {
  const me = useMe().user;
  const path = { orgId: org };
  const events = async (kind: EventKind, actor?: string) => {
    const query = { kind, actor, limit: EVENTS_MAX };
    return (await body(api.GET("/api/v1/organizations/{orgId}/events", { params: { path, query } }))).data;
  };
  const deployments = async () => {
    const query = { status: "succeeded", limit: DEPLOYMENTS_MAX } as const;
    return (await body(api.GET("/api/v1/organizations/{orgId}/deployments", { params: { path, query } })))
      .data;
  };
  const done = useQuery({
    queryKey: key(org, "events", "done", me.id),
    queryFn: async () => {
      const [succeeded, overridden, voted, proposed, opened] = await Promise.all([
        deployments(),
        events("session_overridden"),
        events("approval_voted", me.id),
        events("fix_pull_request_requested", me.id),
        events("fix_pull_request_opened"),
      ]);
      return completedSteps({ succeeded, overridden, voted, proposed, opened }, me);
    },
    enabled: query => !query.state.data?.every(Boolean),
  });
  return done.data ?? STEPS.map(() => false);
}

/** The deployment that failed last. */
export function useFailedDeployment(org: string): string | undefined {
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
