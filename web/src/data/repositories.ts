/** Repositories. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";

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

function useRepositoriesChange<Input, Output>(org: string, change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () =>
      Promise.all(
        (["repositories", "pipelines", "deployed"] as const).map(noun =>
          queries.invalidateQueries({ queryKey: key(org, noun) }),
        ),
      ),
  });
}

export function useRegisterRepository(org: string) {
  return useRepositoriesChange(org, (repository: components["schemas"]["RepositoryNew"]) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/repositories", {
        params: { path: { orgId: org } },
        body: repository,
      }),
    ),
  );
}

export function useSyncRepository(org: string) {
  return useRepositoriesChange(org, (repositoryId: string) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/repositories/{repositoryId}/sync", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}

export function useRemoveRepository(org: string) {
  return useRepositoriesChange(org, (repositoryId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/repositories/{repositoryId}", {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}
