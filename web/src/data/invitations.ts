/** Invitations: created by admins, accepted by the invited user. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key, ME } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;

export function invitationsQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "invitations"),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/invitations", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useInvite(org: string) {
  return useOrgMutation(org, ["invitations"], (invitation: components["schemas"]["InvitationNew"]) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/invitations", {
        params: { path: { orgId: org } },
        body: invitation,
      }),
    ),
  );
}

export function useRevokeInvitation(org: string) {
  return useOrgMutation(org, ["invitations"], (invitationId: string) =>
    data(
      api.DELETE("/api/v1/organizations/{orgId}/invitations/{invitationId}", {
        params: { path: { orgId: org, invitationId } },
      }),
    ),
  );
}

/** Organization and role that the invitation link with this token offers. */
export function offerQuery(token: string) {
  return queryOptions({
    queryKey: ["invitation", token],
    queryFn: () => data(api.POST("/api/v1/auth/invitation", { body: { token } })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Accepts an invitation with the current account. */
export function useJoin() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: string) => data(api.POST("/api/v1/me/organizations", { body: { token } })),
    onSuccess: () => queries.refetchQueries({ queryKey: ME }),
  });
}
