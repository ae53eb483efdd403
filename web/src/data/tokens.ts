/** API tokens. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

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
  return useOrgMutation(org, ["tokens"], (token: components["schemas"]["ApiTokenNew"]) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/api-tokens", {
        params: { path: { orgId: org } },
        body: token,
      }),
    ),
  );
}

export function useRevokeToken(org: string) {
  return useOrgMutation(org, ["tokens"], (tokenId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/api-tokens/{tokenId}", {
        params: { path: { orgId: org, tokenId } },
      }),
    ),
  );
}
