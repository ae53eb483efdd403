/** Members: people and service accounts. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Role } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;

export function membersQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "members"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/members", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useAddServiceAccount(org: string) {
  return useOrgMutation(org, ["members"], (account: Omit<components["schemas"]["MemberNew"], "kind">) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/members", {
        params: { path: { orgId: org } },
        body: { ...account, kind: "service" },
      }),
    ),
  );
}

export function useChangeRole(org: string) {
  return useOrgMutation(org, ["members"], ({ userId, role }: { userId: string; role: Role }) =>
    fetchData(
      api.PATCH("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
        body: { role },
      }),
    ),
  );
}

export function useRemoveMember(org: string) {
  return useOrgMutation(org, ["members"], (userId: string) =>
    fetchData(
      api.DELETE("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
      }),
    ),
  );
}

export function memberQuery(org: string, userId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "members", userId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/members/{userId}", {
          params: { path: { orgId: org, userId } },
        }),
      ),
  });
}
