/** Grants of roles on parts of the organization, and the explanation of a member's access. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Member } from "@/api/types";
import { membersQuery } from "./members";
import { useOrgMutation } from "./mutations";
import { type AccessTarget, formatScope, may } from "./permissions";
import { type Resource, resourceKey } from "./queryKeys";
import { teamMembersQuery } from "./teams";

const LIST_MAX = 200;
const GRANTS_PATH = "/api/v1/organizations/{orgId}/grants";
const INVALIDATED: Resource[] = ["grants", "access"];

/** Grants of a member (`user:ID`) or a team (`team:ID`); without a subject, all grants. */
export function grantsQuery(org: string, subject?: string) {
  return queryOptions({
    queryKey: resourceKey(org, "grants", "of", subject),
    queryFn: () =>
      fetchBody(
        api.GET(GRANTS_PATH, { params: { path: { orgId: org }, query: { subject, limit: LIST_MAX } } }),
      ),
  });
}

export function useCreateGrant(org: string) {
  return useOrgMutation(org, INVALIDATED, (grant: components["schemas"]["GrantNew"]) =>
    fetchData(api.POST(GRANTS_PATH, { params: { path: { orgId: org } }, body: grant })),
  );
}

export function useDeleteGrant(org: string) {
  return useOrgMutation(org, INVALIDATED, (grantId: string) =>
    fetchData(api.DELETE(`${GRANTS_PATH}/{grantId}`, { params: { path: { orgId: org, grantId } } })),
  );
}

/** What a member may do with one resource, and why. */
export function memberAccessQuery(org: string, userId: string, resource: string) {
  return queryOptions({
    queryKey: resourceKey(org, "access", userId, resource),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/members/{userId}/access", {
          params: { path: { orgId: org, userId }, query: { resource } },
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

/** Members who may claim an environment, by their role or by a grant. */
export function claimersQuery(org: string, environment: AccessTarget) {
  return queryOptions({
    queryKey: resourceKey(org, "access", "claimers", formatScope(environment)),
    queryFn: async ({ client }): Promise<Member[]> => {
      const [members, grants] = await Promise.all([
        client.fetchQuery(membersQuery(org)),
        client.fetchQuery(grantsQuery(org)),
      ]);
      const effective = grants.data.filter(({ role, scope }) =>
        may({ role: "member", grants: [{ role, scope }] }, "environments:claim", environment),
      );
      const granted = await Promise.all(
        effective.map(async ({ subject }) => {
          if (subject.type === "user") return [subject.id];
          const inTeam = await client.fetchQuery(teamMembersQuery(org, subject.id));
          return inTeam.map(each => each.id);
        }),
      );
      const ids = new Set(granted.flat());
      return members.data.filter(
        ({ id, role }) => ids.has(id) || may({ role, grants: [] }, "environments:claim", environment),
      );
    },
  });
}
