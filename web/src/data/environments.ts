/** Shared environments: sessions, queues, and the actions on them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Environment } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const HISTORY_PAGE = 20;
const ENVIRONMENTS = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments";

/** One environment of one pipeline of an organization. */
export type EnvironmentKey = { org: string; pipelineId: string; envName: string };

function toPath({ org, pipelineId, envName }: EnvironmentKey) {
  return { path: { orgId: org, pipelineId, envName } };
}

export function environmentsQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "environments", pipelineId),
    queryFn: () => fetchData(api.GET(ENVIRONMENTS, { params: { path: { orgId: org, pipelineId } } })),
  });
}

export function environmentQuery(where: EnvironmentKey) {
  return queryOptions({
    queryKey: resourceKey(where.org, "environments", where.pipelineId, where.envName),
    queryFn: () => fetchData(api.GET(`${ENVIRONMENTS}/{envName}`, { params: toPath(where) })),
  });
}

/** Sites change with the pipeline's definition only: the query is outside of the resources that events invalidate. */
const SITES_STALE_MS = 5 * 60_000;

/** The web address of each environment of a pipeline: the first one among its variables. */
export function sitesQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: ["sites", org, pipelineId],
    queryFn: async () => {
      const environments = await fetchData(
        api.GET(ENVIRONMENTS, { params: { path: { orgId: org, pipelineId } } }),
      );
      return Object.fromEntries(environments.map(each => [each.envName, findSite(each)]));
    },
    staleTime: SITES_STALE_MS,
  });
}

export function findSite({ configuration }: Pick<Environment, "configuration">): string | undefined {
  const values = Object.values(configuration.vars as Record<string, unknown>).map(String);
  return values.find(isWebAddress);
}

export function isWebAddress(value: string): boolean {
  return /^https?:\/\//.test(value);
}

export function queueQuery(where: EnvironmentKey) {
  return queryOptions({
    queryKey: resourceKey(where.org, "environments", where.pipelineId, where.envName, "queue"),
    queryFn: () => fetchData(api.GET(`${ENVIRONMENTS}/{envName}/queue`, { params: toPath(where) })),
  });
}

export function sessionQuery(where: EnvironmentKey, sessionId: string) {
  return queryOptions({
    queryKey: resourceKey(where.org, "environments", where.pipelineId, where.envName, "session", sessionId),
    queryFn: () =>
      fetchData(
        api.GET(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}`, {
          params: { path: { ...toPath(where).path, sessionId } },
        }),
      ),
  });
}

export function sessionHistoryQuery(where: EnvironmentKey, page: number) {
  return queryOptions({
    queryKey: resourceKey(where.org, "environments", where.pipelineId, where.envName, "history", page),
    queryFn: () =>
      fetchBody(
        api.GET(`${ENVIRONMENTS}/{envName}/history`, {
          params: { ...toPath(where), query: { page, limit: HISTORY_PAGE } },
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

export function usageQuery(where: EnvironmentKey, days: number) {
  return queryOptions({
    queryKey: resourceKey(where.org, "insights", where.pipelineId, where.envName, days),
    queryFn: () =>
      fetchData(
        api.GET(`${ENVIRONMENTS}/{envName}/insights`, { params: { ...toPath(where), query: { days } } }),
      ),
  });
}

function useEnvironmentMutation<Input, Output>(
  where: EnvironmentKey,
  change: (input: Input) => Promise<Output>,
) {
  return useOrgMutation(where.org, ["environments", "deployed", "deployments"], change);
}

type Schemas = components["schemas"];

export function useClaimEnvironment(where: EnvironmentKey) {
  return useEnvironmentMutation(where, (claim: Schemas["SessionNew"]) =>
    fetchData(api.POST(`${ENVIRONMENTS}/{envName}/sessions`, { params: toPath(where), body: claim })),
  );
}

/** `seen` is the fence of the session that the dialog named: a later session is not taken over. */
export function useTakeOverEnvironment(where: EnvironmentKey) {
  return useEnvironmentMutation(where, ({ seen, ...claim }: Schemas["ForceClaim"] & { seen: number }) =>
    fetchData(
      api.POST(`${ENVIRONMENTS}/{envName}/force-claim`, {
        params: toPath(where),
        headers: { "If-Match": `"${seen}"` },
        body: claim,
      }),
    ),
  );
}

export function useDeployToEnvironment(where: EnvironmentKey, sessionId: string) {
  return useEnvironmentMutation(where, (deploy: Schemas["DeployNew"]) =>
    fetchData(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/deploy`, {
        params: { path: { ...toPath(where).path, sessionId } },
        body: deploy,
      }),
    ),
  );
}

export function useExtendSession(where: EnvironmentKey, sessionId: string) {
  return useEnvironmentMutation(where, (extend: Schemas["Extend"]) =>
    fetchData(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/extend`, {
        params: { path: { ...toPath(where).path, sessionId } },
        body: extend,
      }),
    ),
  );
}

export function useHandOverSession(where: EnvironmentKey, sessionId: string) {
  return useEnvironmentMutation(where, (to: string) =>
    fetchData(
      api.POST(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}/hand-over`, {
        params: { path: { ...toPath(where).path, sessionId } },
        body: { to },
      }),
    ),
  );
}

export function useReleaseSession(where: EnvironmentKey, sessionId: string) {
  return useEnvironmentMutation(where, () =>
    fetchData(
      api.DELETE(`${ENVIRONMENTS}/{envName}/sessions/{sessionId}`, {
        params: { path: { ...toPath(where).path, sessionId } },
      }),
    ),
  );
}

export function useLeaveQueue(where: EnvironmentKey) {
  return useEnvironmentMutation(where, (ticketId: string) =>
    fetchData(
      api.DELETE(`${ENVIRONMENTS}/{envName}/queue/{ticketId}`, {
        params: { path: { ...toPath(where).path, ticketId } },
      }),
    ),
  );
}
