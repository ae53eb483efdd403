/** The second factor of the current user, and its reset for members. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Me } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { ME_KEY } from "./queryKeys";

type Schemas = components["schemas"];

/** Whether the organization refuses the current user because the account has no second factor. */
export function lacksSecondFactor(
  me: Me,
  organization: { requireSecondFactor: boolean } | undefined,
): boolean {
  return organization?.requireSecondFactor === true && me.secondFactor.status === "disabled";
}

/** Creates the secret for an authenticator app. */
export function useBeginSecondFactor() {
  return useMutation({ mutationFn: () => fetchData(api.POST("/api/v1/me/second-factor")) });
}

/** Switches on the second factor with a code. Returns recovery codes. */
export function useConfirmSecondFactor() {
  return useMutation({
    mutationFn: (code: string) => fetchData(api.POST("/api/v1/me/second-factor/confirm", { body: { code } })),
    onSuccess: useRefreshMe(),
  });
}

export function useReplaceRecoveryCodes() {
  return useMutation({
    mutationFn: () => fetchData(api.POST("/api/v1/me/second-factor/recovery-codes")),
    onSuccess: useRefreshMe(),
  });
}

export function useDisableSecondFactor() {
  const refresh = useRefreshMe();
  return useMutation({
    mutationFn: (removal: Schemas["SecondFactorRemoval"]) =>
      fetchData(api.POST("/api/v1/me/second-factor/disable", { body: removal })),
    // Not awaited: the dialog, which shows the success, disappears with the refresh.
    onSuccess: () => void refresh(),
  });
}

export function useResetSecondFactor(org: string) {
  return useOrgMutation(org, ["members"], (userId: string) =>
    fetchData(
      api.DELETE("/api/v1/organizations/{orgId}/members/{userId}/second-factor", {
        params: { path: { orgId: org, userId } },
      }),
    ),
  );
}

function useRefreshMe() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: ME_KEY });
}
