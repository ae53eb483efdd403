/** Pull requests, and the approval of commits from forks. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { PullRequest } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const PULL_REQUESTS_PAGE = 50;
/** Forges change titles, labels and commits without an event, so this also polls. */
const POLL_MS = 15_000;
const PULL_REQUEST_PATH = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/pull-requests/{number}";

export type PullRequestFilter = PullRequest["state"] | "all";

/** One pull request of one repository of an organization. */
export type PullRequestKey = { org: string; repositoryId: string; number: number };

export function pullRequestPagesQuery(org: string, state: PullRequestFilter) {
  return infiniteQueryOptions({
    queryKey: resourceKey(org, "pull-requests", "pages", state),
    queryFn: ({ pageParam }) =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/pull-requests", {
          params: {
            path: { orgId: org },
            query: { state, limit: PULL_REQUESTS_PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
    refetchInterval: POLL_MS,
  });
}

/** The newest open pull requests of the organization. */
export function openPullRequestsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "pull-requests", "open"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/pull-requests", {
          params: { path: { orgId: org }, query: { state: "open", limit: PULL_REQUESTS_PAGE } },
        }),
      ),
  });
}

export function pullRequestQuery({ org, repositoryId, number }: PullRequestKey) {
  return queryOptions({
    queryKey: resourceKey(org, "pull-requests", "one", repositoryId, number),
    queryFn: () =>
      fetchData(api.GET(PULL_REQUEST_PATH, { params: { path: { orgId: org, repositoryId, number } } })),
    refetchInterval: POLL_MS,
  });
}

/** The server refuses the approval if the head is no longer this commit. */
export function useApproveCommit({ org, repositoryId, number }: PullRequestKey) {
  return useOrgMutation(org, ["pull-requests"], (commit: string) =>
    fetchData(
      api.POST(`${PULL_REQUEST_PATH}/approve`, {
        params: { path: { orgId: org, repositoryId, number } },
        body: { commit },
      }),
    ),
  );
}
