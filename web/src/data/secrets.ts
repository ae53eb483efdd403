/** Secrets. Values are write-only. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;
const SECRET = "/api/v1/organizations/{orgId}/secrets/{secretId}";

export function secretsQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "secrets"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/secrets", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useCreateSecret(org: string) {
  return useOrgMutation(org, ["secrets"], (secret: components["schemas"]["SecretNew"]) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/secrets", { params: { path: { orgId: org } }, body: secret }),
    ),
  );
}

export function useNewValue(org: string) {
  return useOrgMutation(org, ["secrets"], ({ id, value }: { id: string; value: string }) =>
    data(api.PATCH(SECRET, { params: { path: { orgId: org, secretId: id } }, body: { value } })),
  );
}

export function useDeleteSecret(org: string) {
  return useOrgMutation(org, ["secrets"], ({ id, force }: { id: string; force: boolean }) =>
    data(api.DELETE(SECRET, { params: { path: { orgId: org, secretId: id }, query: { force } } })),
  );
}
