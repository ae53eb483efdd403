/** Invitations: created by admins, accepted by the invited user. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { ME_KEY, resourceKey } from "./queryKeys";

const LIST_MAX = 200;

export function invitationsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "invitations"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/invitations", {
          params: { path: { orgId: org }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function useInviteMember(org: string) {
  return useOrgMutation(org, ["invitations"], (invitation: components["schemas"]["InvitationNew"]) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/invitations", {
        params: { path: { orgId: org } },
        body: invitation,
      }),
    ),
  );
}

export function useRevokeInvitation(org: string) {
  return useOrgMutation(org, ["invitations"], (invitationId: string) =>
    fetchData(
      api.DELETE("/api/v1/organizations/{orgId}/invitations/{invitationId}", {
        params: { path: { orgId: org, invitationId } },
      }),
    ),
  );
}

/** Organization and role that the invitation link with this token offers. */
export function invitationOfferQuery(token: string) {
  return queryOptions({
    queryKey: ["invitation", token],
    queryFn: () => fetchData(api.POST("/api/v1/auth/invitation", { body: { token } })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Accepts an invitation with the current account. */
export function useJoinOrganization() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: string) => fetchData(api.POST("/api/v1/me/organizations", { body: { token } })),
    onSuccess: () => queries.refetchQueries({ queryKey: ME_KEY }),
  });
}
