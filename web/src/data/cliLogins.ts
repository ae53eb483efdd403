/** Logins of the CLI that the current user approves or denies. */
import { queryOptions, useMutation } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";

/** The login that shows this code. */
export function cliLoginQuery(userCode: string) {
  return queryOptions({
    queryKey: ["cli-login", userCode],
    queryFn: () => fetchData(api.POST("/api/v1/auth/cli-logins/find", { body: { userCode } })),
    retry: false,
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

export function useApproveCliLogin() {
  return useMutation({
    mutationFn: ({ org, ...body }: { org: string; userCode: string; expiresInDays: number }) =>
      fetchData(
        api.POST("/api/v1/organizations/{orgId}/cli-logins", { params: { path: { orgId: org } }, body }),
      ),
  });
}

export function useDenyCliLogin() {
  return useMutation({
    mutationFn: (userCode: string) =>
      fetchData(api.POST("/api/v1/auth/cli-logins/deny", { body: { userCode } })),
  });
}
