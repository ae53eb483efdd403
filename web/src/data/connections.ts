/** Connections of repositories to their forges, and the deliveries of those forges. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import { toProblem } from "@/api/problem";
import type { ForgeName, RepositoryConnection } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const DELIVERIES_SHOWN_MAX = 50;
/** Deliveries emit no events, so this polls. */
const POLL_MS = 5_000;
const REPOSITORY_PATH = "/api/v1/organizations/{orgId}/repositories/{repositoryId}";

/** Null for a repository that is not connected. */
export function connectionQuery(org: string, repositoryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "repositories", repositoryId, "connection"),
    queryFn: async (): Promise<RepositoryConnection | null> => {
      try {
        return await fetchData(
          api.GET(`${REPOSITORY_PATH}/connection`, { params: { path: { orgId: org, repositoryId } } }),
        );
      } catch (error) {
        if (toProblem(error).status === 404) return null;
        throw error;
      }
    },
    // The first delivery emits no event.
    refetchInterval: ({ state }) => (state.data && !state.data.verifiedAt ? POLL_MS : false),
  });
}

export function hookDeliveriesQuery(org: string, repositoryId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deliveries", repositoryId),
    queryFn: () =>
      fetchBody(
        api.GET(`${REPOSITORY_PATH}/deliveries`, {
          params: { path: { orgId: org, repositoryId }, query: { limit: DELIVERIES_SHOWN_MAX } },
        }),
      ),
    refetchInterval: POLL_MS,
  });
}

export function useConnectRepository(org: string, repositoryId: string) {
  return useOrgMutation(org, ["repositories", "deliveries"], (body: { forge?: ForgeName }) =>
    fetchData(
      api.POST(`${REPOSITORY_PATH}/connection`, {
        params: { path: { orgId: org, repositoryId } },
        body,
      }),
    ),
  );
}

/** Connects a repository through the organization's GitHub App, or returns the page to open first. */
export function useConnectWithApp(org: string, repositoryId: string) {
  return useOrgMutation(org, ["repositories", "deliveries"], (body: { isPersonal?: boolean }) =>
    fetchData(
      api.POST(`${REPOSITORY_PATH}/connection/app`, {
        params: { path: { orgId: org, repositoryId } },
        body,
      }),
    ),
  );
}

/** Creates the GitHub App from the code and state in the URL of GitHub's redirect. */
export function useCreateApp(org: string) {
  return useOrgMutation(org, ["repositories"], (body: { state: string; code: string }) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/forge-apps", { params: { path: { orgId: org } }, body }),
    ),
  );
}

const APP_REPOSITORY_KEY = "berth.github-app.repository";

/** Saves the repository to connect when GitHub leads the browser back. */
export function saveAppRepository(repositoryId: string) {
  sessionStorage.setItem(APP_REPOSITORY_KEY, repositoryId);
}

export function loadAppRepository(): string | null {
  return sessionStorage.getItem(APP_REPOSITORY_KEY);
}

export function useTestConnection(org: string, repositoryId: string) {
  return useOrgMutation(org, ["repositories", "deliveries"], () =>
    fetchData(
      api.POST(`${REPOSITORY_PATH}/connection/test`, {
        params: { path: { orgId: org, repositoryId } },
      }),
    ),
  );
}

export function useDisconnectRepository(org: string, repositoryId: string) {
  return useOrgMutation(org, ["repositories", "deliveries"], () =>
    fetchData(
      api.DELETE(`${REPOSITORY_PATH}/connection`, { params: { path: { orgId: org, repositoryId } } }),
    ),
  );
}
