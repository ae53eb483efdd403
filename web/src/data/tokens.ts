/** API tokens. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";

const LIST_MAX = 200;

export function tokensQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "tokens"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/api-tokens", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useCreateToken(org: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: components["schemas"]["ApiTokenNew"]) =>
      data(
        api.POST("/api/v1/organizations/{orgId}/api-tokens", {
          params: { path: { orgId: org } },
          body: token,
        }),
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: key(org, "tokens") }),
  });
}

export function useRevokeToken(org: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (tokenId: string) =>
      data(
        api.DELETE("/api/v1/organizations/{orgId}/api-tokens/{tokenId}", {
          params: { path: { orgId: org, tokenId } },
        }),
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: key(org, "tokens") }),
  });
}
