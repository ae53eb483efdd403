/** Shared environments: sessions, queues, and the actions on them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const HISTORY_PAGE = 20;
const ENVIRONMENTS = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments";

/** One environment of one pipeline of an organization. */
export type Where = { org: string; pipelineId: string; envName: string };

function path({ org, pipelineId, envName }: Where) {
  return { path: { orgId: org, pipelineId, envName } };
}

export function environmentsQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: key(org, "environments", pipelineId),
    queryFn: () => data(api.GET(ENVIRONMENTS, { params: { path: { orgId: org, pipelineId } } })),
  });
}

export function environmentQuery(where: Where) {
  return queryOptions({
    queryKey: key(where.org, "environments", where.pipelineId, where.envName),
    queryFn: () => data(api.GET(`${ENVIRONMENTS}/{envName}`, { params: path(where) })),
  });
}

export function queueQuery(where: Where) {
  return queryOptions({
    queryKey: key(where.org, "environments", where.pipelineId, where.envName, "queue"),
    queryFn: () => data(api.GET(`${ENVIRONMENTS}/{envName}/queue`, { params: path(where) })),
  });
}

export function sessionQuery(where: Where, sessionId: string) {
  return queryOptions({
    queryKey: key(where.org, "environments", where.pipelineId, where.envName, "session", sessionId),
    queryFn: () =>
      data(
        api.GET(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}`, {
          params: { path: { ...path(where).path, sessionId } },
        }),
      ),
  });
}

export function historyQuery(where: Where, page: number) {
  return queryOptions({
    queryKey: key(where.org, "environments", where.pipelineId, where.envName, "history", page),
    queryFn: () =>
      body(
        api.GET(`${ENVIRONMENTS}/{envName}/history`, {
          params: { ...path(where), query: { page, limit: HISTORY_PAGE } },
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

export function insightsQuery(where: Where, days: number) {
  return queryOptions({
    queryKey: key(where.org, "insights", where.pipelineId, where.envName, days),
    queryFn: () =>
      data(api.GET(`${ENVIRONMENTS}/{envName}/insights`, { params: { ...path(where), query: { days } } })),
  });
}

function useEnvironmentMutation<Input, Output>(where: Where, change: (input: Input) => Promise<Output>) {
  return useOrgMutation(where.org, ["environments", "deployed", "deployments"], change);
}

type Schemas = components["schemas"];

export function useClaim(where: Where) {
  return useEnvironmentMutation(where, (claim: Schemas["SessionNew"]) =>
    data(api.POST(`${ENVIRONMENTS}/{envName}/sessions`, { params: path(where), body: claim })),
  );
}

/** `seen` is the fence of the session that the dialog named: a later session is not taken over. */
export function useTakeOver(where: Where) {
  return useEnvironmentMutation(where, ({ seen, ...claim }: Schemas["ForceClaim"] & { seen: number }) =>
    data(
      api.POST(`${ENVIRONMENTS}/{envName}/force-claim`, {
        params: path(where),
        headers: { "If-Match": `"${seen}"` },
        body: claim,
      }),
    ),
  );
}

export function useDeploy(where: Where, sessionId: string) {
  return useEnvironmentMutation(where, (deploy: Schemas["DeployNew"]) =>
    data(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/deploy`, {
        params: { path: { ...path(where).path, sessionId } },
        body: deploy,
      }),
    ),
  );
}

export function useExtend(where: Where, sessionId: string) {
  return useEnvironmentMutation(where, (extend: Schemas["Extend"]) =>
    data(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/extend`, {
        params: { path: { ...path(where).path, sessionId } },
        body: extend,
      }),
    ),
  );
}

export function useHandOver(where: Where, sessionId: string) {
  return useEnvironmentMutation(where, (to: string) =>
    data(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/hand-over`, {
        params: { path: { ...path(where).path, sessionId } },
        body: { to },
      }),
    ),
  );
}

export function useRelease(where: Where, sessionId: string) {
  return useEnvironmentMutation(where, () =>
    data(
      api.DELETE(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}`, {
        params: { path: { ...path(where).path, sessionId } },
      }),
    ),
  );
}

export function useLeaveQueue(where: Where) {
  return useEnvironmentMutation(where, (ticketId: string) =>
    data(
      api.DELETE(`${ENVIRONMENTS}/{envName}/queue/{ticketId}`, {
        params: { path: { ...path(where).path, ticketId } },
      }),
    ),
  );
}
