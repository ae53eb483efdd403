/** Organization settings: name, default network of steps, and the second factor. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { ME_KEY, resourceKey } from "./queryKeys";

const ORGANIZATION = "/api/v1/organizations/{orgId}";

export function organizationQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "organization"),
    queryFn: () => fetchData(api.GET(ORGANIZATION, { params: { path: { orgId: org } } })),
  });
}

export function useChangeOrganization(org: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (change: components["schemas"]["OrganizationPatch"]) =>
      fetchData(api.PATCH(ORGANIZATION, { params: { path: { orgId: org } }, body: change })),
    onSuccess: changed => queries.setQueryData(organizationQuery(org).queryKey, changed),
    // The navigation shows the name.
    onSettled: () => queries.invalidateQueries({ queryKey: ME_KEY }),
  });
}

/** Finds an organization of the current user by a slug that it has or had. */
export async function findOrganization(slug: string) {
  try {
    return await fetchData(api.GET(ORGANIZATION, { params: { path: { orgId: slug } } }));
  } catch {
    return null;
  }
}
