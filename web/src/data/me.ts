/** The current user, their organizations and role; login and password. */
import { queryOptions, useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { api, data, rememberCsrfToken } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Me } from "@/api/types";
import { ME } from "./keys";
import { type Permission, roleMay } from "./permissions";

type Schemas = components["schemas"];

export const meQuery = queryOptions({
  queryKey: ME,
  queryFn: async () => {
    const me = await data(api.GET("/api/v1/me"));
    rememberCsrfToken(me.csrfToken);
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

/** Whether the current user has this permission in the organization. */
export function useMay(permission: Permission): boolean {
  const role = useOrganization()?.role;
  return role !== undefined && roleMay(role, permission);
}

export function useSignIn() {
  return useBecome((login: Schemas["Login"]) => data(api.POST("/api/v1/auth/login", { body: login })));
}

/** Accepts an invitation with a new account and logs in. */
export function useSignUp() {
  return useBecome((account: Schemas["SignUp"]) => data(api.POST("/api/v1/auth/sign-up", { body: account })));
}

/** Logs in as another user and clears the cached data of the previous one. */
function useBecome<Input>(enter: (input: Input) => Promise<Me>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: enter,
    onSuccess: me => {
      rememberCsrfToken(me.csrfToken);
      queries.clear();
      queries.setQueryData(ME, me);
    },
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/api/v1/auth/logout")),
    onSuccess: () => queries.clear(),
  });
}

export function useChangePassword() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (change: Schemas["PasswordChange"]) =>
      data(api.POST("/api/v1/me/password", { body: change })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ME }),
  });
}

/** Sets a password with the token of a reset link. The server ends all logins of the account. */
export function useResetPassword() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (reset: Schemas["PasswordReset"]) =>
      data(api.POST("/api/v1/auth/reset-password", { body: reset })),
    onSuccess: () => queries.clear(),
  });
}

export function useConfirmPassword() {
  return useMutation({
    mutationFn: (password: string) => data(api.POST("/api/v1/auth/confirm", { body: { password } })),
  });
}
