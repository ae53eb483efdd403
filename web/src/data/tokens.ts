/** API tokens. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;

export function tokensQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "tokens"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/api-tokens", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useCreateToken(org: string) {
  return useOrgMutation(org, ["tokens"], (token: components["schemas"]["ApiTokenNew"]) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/api-tokens", {
        params: { path: { orgId: org } },
        body: token,
      }),
    ),
  );
}

export function useRevokeToken(org: string) {
  return useOrgMutation(org, ["tokens"], (tokenId: string) =>
    fetchData(
      api.DELETE("/api/v1/organizations/{orgId}/api-tokens/{tokenId}", {
        params: { path: { orgId: org, tokenId } },
      }),
    ),
  );
}
