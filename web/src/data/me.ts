/** Who is signed in, where, and as what. */
import { queryOptions, useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { api, data, rememberCsrfToken } from "@/api/client";
import { ME } from "./keys";
import { type Permission, roleMay } from "./permissions";

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

/** The organization of the address: its slug, as all addresses of its pages have it. */
export function useOrg(): string {
  return useParams({ strict: false }).org ?? "";
}

export function useOrganization() {
  const org = useOrg();
  return useMe().organizations.find(each => each.slug === org || each.id === org);
}

/** Whether the one signed in may do this here. */
export function useMay(permission: Permission): boolean {
  const role = useOrganization()?.role;
  return role !== undefined && roleMay(role, permission);
}

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (login: { email: string; password: string }) => {
      const me = await data(api.POST("/api/v1/auth/login", { body: login }));
      rememberCsrfToken(me.csrfToken);
      return me;
    },
    onSuccess: me => {
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
    mutationFn: (change: { currentPassword: string; newPassword: string }) =>
      data(api.POST("/api/v1/me/password", { body: change })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ME }),
  });
}
