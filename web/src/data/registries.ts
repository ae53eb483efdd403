/** Step registries, their steps and builds. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;
const BUILDS_SHOWN_MAX = 50;
/** Maximum number of log lines shown of a build. */
export const BUILD_LINES_SHOWN_MAX = 500;
/** Builds emit no events while they run, so this polls. */
const BUILD_POLL_MS = 1_000;
const FALLBACK_POLL_MS = 5_000;
const REGISTRIES_PATH = "/api/v1/organizations/{orgId}/step-registries";
const REGISTRY_PATH = `${REGISTRIES_PATH}/{registryId}` as const;

type Schemas = components["schemas"];

function isInProgress(status: Schemas["StepRegistryStatus"] | undefined): boolean {
  return status === "pending" || status === "building";
}

export function registriesQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "registries", "list"),
    queryFn: () =>
      fetchBody(api.GET(REGISTRIES_PATH, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
    refetchInterval: query =>
      query.state.data?.data.some(each => isInProgress(each.status)) ? FALLBACK_POLL_MS : false,
  });
}

export function registryQuery(org: string, registryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "registries", "one", registryId),
    queryFn: () => fetchData(api.GET(REGISTRY_PATH, { params: { path: { orgId: org, registryId } } })),
    refetchInterval: query => (isInProgress(query.state.data?.status) ? BUILD_POLL_MS : false),
  });
}

export function registryStepsQuery(org: string, registryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "registries", "steps", registryId),
    queryFn: () =>
      fetchBody(
        api.GET(`${REGISTRY_PATH}/steps`, {
          params: { path: { orgId: org, registryId }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

/** Builds of a registry, newest first. Polls while one runs or is about to start. */
export function registryBuildsQuery(org: string, registry: Pick<Schemas["StepRegistry"], "name" | "status">) {
  const registryId = registry.name;
  return queryOptions({
    queryKey: resourceKey(org, "registries", "builds", registryId),
    queryFn: () =>
      fetchBody(
        api.GET(`${REGISTRY_PATH}/builds`, {
          params: { path: { orgId: org, registryId }, query: { limit: BUILDS_SHOWN_MAX } },
        }),
      ),
    refetchInterval: query => {
      const isBuilding = query.state.data?.data.some(each => each.status === "building");
      return isBuilding || isInProgress(registry.status) ? BUILD_POLL_MS : false;
    },
  });
}

export function buildLogQuery(org: string, registryId: string, buildNumber: number) {
  return queryOptions({
    queryKey: resourceKey(org, "registries", "log", registryId, buildNumber),
    queryFn: () =>
      fetchData(
        api.GET(`${REGISTRY_PATH}/builds/{buildNumber}/logs`, {
          params: {
            path: { orgId: org, registryId, buildNumber },
            query: { tail: BUILD_LINES_SHOWN_MAX },
          },
        }),
      ),
    refetchInterval: query => (query.state.data?.complete ? false : BUILD_POLL_MS),
  });
}

export function useAddRegistry(org: string) {
  return useOrgMutation(org, ["registries"], (registry: Schemas["StepRegistryNew"]) =>
    fetchData(api.POST(REGISTRIES_PATH, { params: { path: { orgId: org } }, body: registry })),
  );
}

export function useChangeRegistry(org: string, registryId: string) {
  return useOrgMutation(org, ["registries"], (change: Schemas["StepRegistryPatch"]) =>
    fetchData(api.PATCH(REGISTRY_PATH, { params: { path: { orgId: org, registryId } }, body: change })),
  );
}

/** Syncs the repository and builds its newest commit unless it is already built. */
export function useSyncRegistry(org: string, registryId: string) {
  return useOrgMutation(org, ["registries"], () =>
    fetchData(api.POST(`${REGISTRY_PATH}/sync`, { params: { path: { orgId: org, registryId } } })),
  );
}

export function useDeleteRegistry(org: string, registryId: string) {
  return useOrgMutation(org, ["registries"], ({ force }: { force: boolean }) =>
    fetchData(api.DELETE(REGISTRY_PATH, { params: { path: { orgId: org, registryId }, query: { force } } })),
  );
}
