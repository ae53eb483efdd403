/** Members: people and service accounts. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Role } from "@/api/types";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;

export function membersQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "members"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/members", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useAddServiceAccount(org: string) {
  return useOrgMutation(org, ["members"], (account: Omit<components["schemas"]["MemberNew"], "kind">) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/members", {
        params: { path: { orgId: org } },
        body: { ...account, kind: "service" },
      }),
    ),
  );
}

export function useChangeRole(org: string) {
  return useOrgMutation(org, ["members"], ({ userId, role }: { userId: string; role: Role }) =>
    data(
      api.PATCH("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
        body: { role },
      }),
    ),
  );
}

export function useRemoveMember(org: string) {
  return useOrgMutation(org, ["members"], (userId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
      }),
    ),
  );
}
