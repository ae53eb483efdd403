/** Git repositories with pipeline definitions. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;

export function repositoriesQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "repositories"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/repositories", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useRegisterRepository(org: string) {
  return useOrgMutation(
    org,
    ["repositories", "pipelines", "deployed"],
    (repository: components["schemas"]["RepositoryNew"]) =>
      data(
        api.POST("/api/v1/organizations/{orgId}/repositories", {
          params: { path: { orgId: org } },
          body: repository,
        }),
      ),
  );
}

export function useSyncRepository(org: string) {
  return useOrgMutation(org, ["repositories", "pipelines", "deployed"], (repositoryId: string) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/repositories/{repositoryId}/sync", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}

export function useRemoveRepository(org: string) {
  return useOrgMutation(org, ["repositories", "pipelines", "deployed"], (repositoryId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/repositories/{repositoryId}", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}
