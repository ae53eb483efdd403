/** Runners: machines that run steps. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;
/** Heartbeats emit no events, so this polls. */
const POLL_MS = 5_000;
const ALL = "/api/v1/organizations/{orgId}/runners";

export function runnersQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "runners"),
    queryFn: () => body(api.GET(ALL, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
    refetchInterval: POLL_MS,
  });
}

/** Creates a runner. Only this response contains its registration token. */
export function useAddRunner(org: string) {
  return useOrgMutation(org, ["runners"], (runner: { name?: string; labels: string[] }) =>
    data(api.POST(ALL, { params: { path: { orgId: org } }, body: runner })),
  );
}

export function useRemoveRunner(org: string) {
  return useOrgMutation(org, ["runners"], (runnerId: string) =>
    data(api.DELETE(`${ALL}/{runnerId}`, { params: { path: { orgId: org, runnerId } } })),
  );
}
