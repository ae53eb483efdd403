/** Accounts on forges that the current user has linked, per organization. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import type { LinkedForgeAccount } from "@/api/types";

const ACCOUNTS_PATH = "/api/v1/organizations/{orgId}/me/forge-accounts";
/** The account is linked by a comment on the forge, which emits no event that the profile page follows. */
const POLL_MS = 5_000;

function accountsKey(org: string) {
  return ["forge-accounts", org] as const;
}

/** `isAwaited`: whether a code was issued, so that an account can appear at any time. */
export function forgeAccountsQuery(org: string, isAwaited: boolean) {
  return queryOptions({
    queryKey: accountsKey(org),
    queryFn: () => fetchData(api.GET(ACCOUNTS_PATH, { params: { path: { orgId: org } } })),
    refetchInterval: isAwaited ? POLL_MS : false,
  });
}

export function useCreateForgeCode(org: string) {
  return useMutation({
    mutationFn: () => fetchData(api.POST(ACCOUNTS_PATH, { params: { path: { orgId: org } } })),
  });
}

export function useUnlinkForgeAccount(org: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ host, accountId }: Pick<LinkedForgeAccount, "host" | "accountId">) =>
      fetchData(
        api.DELETE(`${ACCOUNTS_PATH}/{host}/{accountId}`, {
          params: { path: { orgId: org, host, accountId } },
        }),
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: accountsKey(org) }),
  });
}
