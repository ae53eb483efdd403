/** Runners: machines that run steps. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;
/** Heartbeats emit no events, so this polls. */
const POLL_MS = 5_000;
const RUNNERS_PATH = "/api/v1/organizations/{orgId}/runners";

export function runnersQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "runners"),
    queryFn: () =>
      fetchBody(api.GET(RUNNERS_PATH, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
    refetchInterval: POLL_MS,
  });
}

/** Creates a runner. Only this response contains its registration token. */
export function useAddRunner(org: string) {
  return useOrgMutation(org, ["runners"], (runner: { name?: string; labels: string[] }) =>
    fetchData(api.POST(RUNNERS_PATH, { params: { path: { orgId: org } }, body: runner })),
  );
}

export function useRemoveRunner(org: string) {
  return useOrgMutation(org, ["runners"], (runnerId: string) =>
    fetchData(api.DELETE(`${RUNNERS_PATH}/{runnerId}`, { params: { path: { orgId: org, runnerId } } })),
  );
}
