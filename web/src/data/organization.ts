/** Organization settings: name and default network of steps. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key, ME } from "./keys";

const ORGANIZATION = "/api/v1/organizations/{orgId}";

export function organizationQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "organization"),
    queryFn: () => data(api.GET(ORGANIZATION, { params: { path: { orgId: org } } })),
  });
}

export function useChangeOrganization(org: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (change: components["schemas"]["OrganizationPatch"]) =>
      data(api.PATCH(ORGANIZATION, { params: { path: { orgId: org } }, body: change })),
    onSuccess: changed => queries.setQueryData(organizationQuery(org).queryKey, changed),
    // The navigation shows the name.
    onSettled: () => queries.invalidateQueries({ queryKey: ME }),
  });
}
