/** Login through identity providers, and linked accounts. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";

const IDENTITIES_KEY = ["me", "identities"] as const;
const PROVIDER_PATH = "/api/v1/auth/providers/{provider}";
/** Page that the provider leads back to after a confirmation. */
export const CONFIRMED_PATH = "/confirmed";
/** Tells the tab with the dialog that the person has confirmed in another tab. */
const CONFIRMED_CHANNEL = "berth-confirmed";

export const loginOptionsQuery = queryOptions({
  queryKey: ["login-options"],
  queryFn: () => fetchData(api.GET("/api/v1/auth/providers")),
  staleTime: Number.POSITIVE_INFINITY,
});

export const identitiesQuery = queryOptions({
  queryKey: IDENTITIES_KEY,
  queryFn: () => fetchData(api.GET("/api/v1/me/identities")),
});

type ProviderStart = { provider: string; next: string };

/** Leaves the dashboard for the provider's login page. */
export function useStartProviderLogin() {
  return useMutation({
    mutationFn: ({ provider, next }: ProviderStart) =>
      fetchData(api.POST(`${PROVIDER_PATH}/login`, { params: { path: { provider } }, body: { next } })),
    onSuccess: started => window.location.assign(started.url),
  });
}

/** Leaves the dashboard to link an account at the provider. */
export function useStartProviderLink() {
  return useMutation({
    mutationFn: ({ provider, next }: ProviderStart) =>
      fetchData(api.POST(`${PROVIDER_PATH}/link`, { params: { path: { provider } }, body: { next } })),
    onSuccess: started => window.location.assign(started.url),
  });
}

export function useUnlinkIdentity() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (identityId: string) =>
      fetchData(api.DELETE("/api/v1/me/identities/{identityId}", { params: { path: { identityId } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: IDENTITIES_KEY }),
  });
}

/** Opens the provider in another tab, so that the request that needs the confirmation is not lost. */
export function useConfirmWithProvider() {
  return useMutation({
    mutationFn: async (tab: Window | null) => {
      try {
        const path = "/api/v1/auth/confirm-with-provider";
        const started = await fetchData(api.POST(path, { body: { next: CONFIRMED_PATH } }));
        if (!tab) return window.location.assign(started.url);
        tab.opener = null;
        tab.location.assign(started.url);
      } catch (error) {
        tab?.close();
        throw error;
      }
    },
  });
}

export function announceConfirmation() {
  const channel = new BroadcastChannel(CONFIRMED_CHANNEL);
  channel.postMessage(true);
  channel.close();
}

/** Calls `act` when the person has confirmed in another tab. Returns a function that ends this. */
export function onConfirmation(act: () => void): () => void {
  const channel = new BroadcastChannel(CONFIRMED_CHANNEL);
  channel.addEventListener("message", act);
  return () => channel.close();
}
