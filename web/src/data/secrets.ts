/** Secrets. Values are write-only. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;
const SECRET_PATH = "/api/v1/organizations/{orgId}/secrets/{secretId}";

export function secretsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "secrets"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/secrets", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useCreateSecret(org: string) {
  return useOrgMutation(org, ["secrets"], (secret: components["schemas"]["SecretNew"]) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/secrets", { params: { path: { orgId: org } }, body: secret }),
    ),
  );
}

export function useUpdateSecret(org: string) {
  return useOrgMutation(org, ["secrets"], ({ id, value }: { id: string; value: string }) =>
    fetchData(api.PATCH(SECRET_PATH, { params: { path: { orgId: org, secretId: id } }, body: { value } })),
  );
}

export function useDeleteSecret(org: string) {
  return useOrgMutation(org, ["secrets"], ({ id, force }: { id: string; force: boolean }) =>
    fetchData(api.DELETE(SECRET_PATH, { params: { path: { orgId: org, secretId: id }, query: { force } } })),
  );
}
