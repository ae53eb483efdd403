/** The organizations of the installation, which instance admins manage. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { ME_KEY } from "./queryKeys";

const LIST_MAX = 200;
const ORGANIZATIONS_PATH = "/api/v1/instance/organizations";
const ORGANIZATION_PATH = `${ORGANIZATIONS_PATH}/{orgId}` as const;
const ORGANIZATIONS_KEY = ["instance", "organizations"] as const;

type Schemas = components["schemas"];

export const instanceOrganizationsQuery = queryOptions({
  queryKey: ORGANIZATIONS_KEY,
  queryFn: () => fetchBody(api.GET(ORGANIZATIONS_PATH, { params: { query: { limit: LIST_MAX } } })),
});

export function useCreateOrganization() {
  return useInstanceMutation((organization: Schemas["OrganizationNew"]) =>
    fetchData(api.POST(ORGANIZATIONS_PATH, { body: organization })),
  );
}

export function useRenameOrganization(orgId: string) {
  return useInstanceMutation((change: Schemas["OrganizationRename"]) =>
    fetchData(api.PATCH(ORGANIZATION_PATH, { params: { path: { orgId } }, body: change })),
  );
}

export function useDeleteOrganization(orgId: string) {
  return useInstanceMutation((confirm: string) =>
    fetchData(api.DELETE(ORGANIZATION_PATH, { params: { path: { orgId }, query: { confirm } } })),
  );
}

/** The user's own organizations may have changed as well. */
function useInstanceMutation<Input, Output>(mutationFn: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn,
    onSettled: () =>
      Promise.all(
        [ORGANIZATIONS_KEY, ME_KEY].map(queryKey => queries.invalidateQueries({ queryKey: [...queryKey] })),
      ),
  });
}
