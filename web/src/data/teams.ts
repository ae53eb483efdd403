/** Teams and their members. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { type Resource, resourceKey } from "./queryKeys";

const LIST_MAX = 200;
const TEAMS_PATH = "/api/v1/organizations/{orgId}/teams";
const TEAM_PATH = `${TEAMS_PATH}/{teamId}` as const;
const INVALIDATED: Resource[] = ["teams", "grants", "access"];

type Schemas = components["schemas"];

export function teamsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "teams"),
    queryFn: () =>
      fetchBody(api.GET(TEAMS_PATH, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
  });
}

export function teamQuery(org: string, teamId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "teams", teamId),
    queryFn: () => fetchData(api.GET(TEAM_PATH, { params: { path: { orgId: org, teamId } } })),
  });
}

export function teamMembersQuery(org: string, teamId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "teams", teamId, "members"),
    queryFn: () => fetchData(api.GET(`${TEAM_PATH}/members`, { params: { path: { orgId: org, teamId } } })),
  });
}

export function useCreateTeam(org: string) {
  return useOrgMutation(org, INVALIDATED, (team: Schemas["TeamNew"]) =>
    fetchData(api.POST(TEAMS_PATH, { params: { path: { orgId: org } }, body: team })),
  );
}

export function useRenameTeam(org: string, teamId: string) {
  return useOrgMutation(org, INVALIDATED, (name: string) =>
    fetchData(api.PATCH(TEAM_PATH, { params: { path: { orgId: org, teamId } }, body: { name } })),
  );
}

export function useDeleteTeam(org: string) {
  return useOrgMutation(org, INVALIDATED, (teamId: string) =>
    fetchData(api.DELETE(TEAM_PATH, { params: { path: { orgId: org, teamId } } })),
  );
}

export function useAddTeamMember(org: string, teamId: string) {
  return useOrgMutation(org, INVALIDATED, (userId: string) =>
    fetchData(api.PUT(`${TEAM_PATH}/members/{userId}`, { params: { path: { orgId: org, teamId, userId } } })),
  );
}

export function useRemoveTeamMember(org: string, teamId: string) {
  return useOrgMutation(org, INVALIDATED, (userId: string) =>
    fetchData(
      api.DELETE(`${TEAM_PATH}/members/{userId}`, { params: { path: { orgId: org, teamId, userId } } }),
    ),
  );
}

/** The teams of a member, and where each membership comes from. */
export function memberTeamsQuery(org: string, userId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "teams", "of", userId),
    queryFn: async ({ client }) => {
      const teams = await client.fetchQuery(teamsQuery(org));
      const memberships = await Promise.all(
        teams.data.map(async team => {
          const members = await client.fetchQuery(teamMembersQuery(org, team.id));
          const member = members.find(each => each.id === userId);
          return member ? [{ team, source: member.source }] : [];
        }),
      );
      return memberships.flat();
    },
  });
}
