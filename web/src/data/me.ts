/** The current user, their organizations and role; login and password. */
import { queryOptions, useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { api, fetchData, setCsrfToken } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Me } from "@/api/types";
import {
  type Access,
  type AccessTarget,
  may,
  maySomewhere,
  ORGANIZATION,
  type Permission,
} from "./permissions";
import { ME_KEY } from "./queryKeys";

type Schemas = components["schemas"];

export const meQuery = queryOptions({
  queryKey: ME_KEY,
  queryFn: async () => {
    const me = await fetchData(api.GET("/api/v1/me"));
    setCsrfToken(me.csrfToken);
    return me;
  },
  staleTime: 5 * 60_000,
  retry: false,
});

export function useMe() {
  return useSuspenseQuery(meQuery).data;
}

/** The organization's slug in the URL. */
export function useOrg(): string {
  return useParams({ strict: false }).org ?? "";
}

export function useOrganization() {
  const org = useOrg();
  return useMe().organizations.find(each => each.slug === org || each.id === org);
}

const NO_ACCESS: Access = { role: "member", grants: [] };

/** Role and grants of the current user in the organization. */
export function useAccess(): Access {
  return useOrganization() ?? NO_ACCESS;
}

/** Whether the current user has this permission on a resource; by default, in the whole organization. */
export function usePermission(permission: Permission, target: AccessTarget = ORGANIZATION): boolean {
  return may(useAccess(), permission, target);
}

/** Whether there can be a resource on which the current user has this permission. */
export function usePermissionSomewhere(permission: Permission): boolean {
  return maySomewhere(useAccess(), permission);
}

export function useLogIn() {
  return useLoginMutation((login: Schemas["Login"]) =>
    fetchData(api.POST("/api/v1/auth/login", { body: login })),
  );
}

/** Accepts an invitation with a new account and logs in. */
export function useSignUp() {
  return useLoginMutation((account: Schemas["SignUp"]) =>
    fetchData(api.POST("/api/v1/auth/sign-up", { body: account })),
  );
}

/** Logs in as another user and clears the cached data of the previous one. */
function useLoginMutation<Input>(enter: (input: Input) => Promise<Me>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: enter,
    onSuccess: me => {
      setCsrfToken(me.csrfToken);
      queries.clear();
      queries.setQueryData(ME_KEY, me);
    },
  });
}

export function useLogOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => fetchData(api.POST("/api/v1/auth/logout")),
    onSuccess: () => queries.clear(),
  });
}

export function useChangePassword() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (change: Schemas["PasswordChange"]) =>
      fetchData(api.POST("/api/v1/me/password", { body: change })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ME_KEY }),
  });
}

/** Sets a password with the token of a reset link. The server ends all logins of the account. */
export function useResetPassword() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (reset: Schemas["PasswordReset"]) =>
      fetchData(api.POST("/api/v1/auth/reset-password", { body: reset })),
    onSuccess: () => queries.clear(),
  });
}

export function useConfirmPassword() {
  return useMutation({
    mutationFn: (confirmation: Schemas["PasswordConfirmation"]) =>
      fetchData(api.POST("/api/v1/auth/confirm", { body: confirmation })),
  });
}
