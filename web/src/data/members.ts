/** Members: people and service accounts. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Role } from "@/api/types";
import { key } from "./keys";

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

function useMembersChange<Input, Output>(org: string, change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries({ queryKey: key(org, "members") }),
  });
}

export function useAddServiceAccount(org: string) {
  return useMembersChange(org, (account: Omit<components["schemas"]["MemberNew"], "kind">) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/members", {
        params: { path: { orgId: org } },
        body: { ...account, kind: "service" },
      }),
    ),
  );
}

export function useChangeRole(org: string) {
  return useMembersChange(org, ({ userId, role }: { userId: string; role: Role }) =>
    data(
      api.PATCH("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
        body: { role },
      }),
    ),
  );
}

export function useRemoveMember(org: string) {
  return useMembersChange(org, (userId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/members/{userId}", {
        params: { path: { orgId: org, userId } },
      }),
    ),
  );
}
