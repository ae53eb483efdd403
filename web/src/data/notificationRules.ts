/** Notification rules of the current user, a team or the organization. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import type { NotificationRule } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

/** Whose rules: those of the current user, a team or the organization. */
export type RuleScope = { kind: "own" } | { kind: "team"; teamId: string } | { kind: "organization" };

const ORGANIZATION = "/api/v1/organizations/{orgId}";
const OWN_PATH = `${ORGANIZATION}/notification-rules` as const;
const TEAM_PATH = `${ORGANIZATION}/teams/{teamId}/notification-rules` as const;
const ORGANIZATION_PATH = `${ORGANIZATION}/organization-notification-rules` as const;

export function notificationRulesQuery(org: string, scope: RuleScope) {
  return queryOptions({
    queryKey: resourceKey(org, "notifications", "rules", scope),
    queryFn: () => fetchRules(org, scope),
  });
}

function fetchRules(orgId: string, scope: RuleScope) {
  switch (scope.kind) {
    case "own":
      return fetchData(api.GET(OWN_PATH, { params: { path: { orgId } } }));
    case "team":
      return fetchData(api.GET(TEAM_PATH, { params: { path: { orgId, teamId: scope.teamId } } }));
    case "organization":
      return fetchData(api.GET(ORGANIZATION_PATH, { params: { path: { orgId } } }));
  }
}

/** Replaces all rules. An empty list turns notifications off; null returns to the default rules. */
export function useReplaceNotificationRules(org: string, scope: RuleScope) {
  return useOrgMutation(org, ["notifications"], (rules: NotificationRule[] | null) =>
    putRules(org, scope, { rules }),
  );
}

function putRules(orgId: string, scope: RuleScope, body: { rules: NotificationRule[] | null }) {
  switch (scope.kind) {
    case "own":
      return fetchData(api.PUT(OWN_PATH, { params: { path: { orgId } }, body }));
    case "team":
      return fetchData(api.PUT(TEAM_PATH, { params: { path: { orgId, teamId: scope.teamId } }, body }));
    case "organization":
      return fetchData(api.PUT(ORGANIZATION_PATH, { params: { path: { orgId } }, body }));
  }
}
