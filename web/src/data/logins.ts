/** Active logins of the current user. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;
const LOGINS_KEY = ["logins"] as const;

export const loginsQuery = queryOptions({
  queryKey: LOGINS_KEY,
  queryFn: () => fetchBody(api.GET("/api/v1/me/logins", { params: { query: { limit: LIST_MAX } } })),
});

export function useEndLogin() {
  return useLoginMutation((loginId: string) =>
    fetchData(api.DELETE("/api/v1/me/logins/{loginId}", { params: { path: { loginId } } })),
  );
}

export function useLogOutEverywhere() {
  return useLoginMutation((body: components["schemas"]["LogoutEverywhere"]) =>
    fetchData(api.POST("/api/v1/auth/logout-everywhere", { body })),
  );
}

/** Ends all logins of a member. */
export function useLogOutMember(org: string) {
  return useOrgMutation(org, [], (userId: string) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/members/{userId}/logout", {
        params: { path: { orgId: org, userId } },
      }),
    ),
  );
}

function useLoginMutation<Input, Output>(mutationFn: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn,
    onSettled: () => queries.invalidateQueries({ queryKey: LOGINS_KEY }),
  });
}
