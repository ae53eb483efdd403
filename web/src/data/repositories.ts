/** Git repositories with pipeline definitions. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;

export function repositoriesQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "repositories"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/repositories", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function repositoryQuery(org: string, repositoryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "repositories", repositoryId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/repositories/{repositoryId}", {
          params: { path: { orgId: org, repositoryId } },
        }),
      ),
  });
}

export function useAddRepository(org: string) {
  return useOrgMutation(
    org,
    ["repositories", "pipelines", "deployed"],
    (repository: components["schemas"]["RepositoryNew"]) =>
      fetchData(
        api.POST("/api/v1/organizations/{orgId}/repositories", {
          params: { path: { orgId: org } },
          body: repository,
        }),
      ),
  );
}

export function useSyncRepository(org: string) {
  return useOrgMutation(org, ["repositories", "pipelines", "deployed"], (repositoryId: string) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/repositories/{repositoryId}/sync", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}

export function useRemoveRepository(org: string) {
  return useOrgMutation(org, ["repositories", "pipelines", "deployed"], (repositoryId: string) =>
    fetchData(
      api.DELETE("/api/v1/organizations/{orgId}/repositories/{repositoryId}", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}
