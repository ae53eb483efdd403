/** Machines that run steps. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import { key } from "./keys";

const LIST_MAX = 200;
/** A sign of life is no event, so this looks again by itself. */
const LOOK_AGAIN_MS = 5_000;
const ALL = "/api/v1/organizations/{orgId}/runners";

export function runnersQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "runners"),
    queryFn: () => body(api.GET(ALL, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
    refetchInterval: LOOK_AGAIN_MS,
  });
}

function useRunnersChange<Input, Output>(org: string, change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries({ queryKey: key(org, "runners") }),
  });
}

/** Its answer has the token to register with, and nothing ever shows that again. */
export function useAddRunner(org: string) {
  return useRunnersChange(org, (runner: { name?: string; labels: string[] }) =>
    data(api.POST(ALL, { params: { path: { orgId: org } }, body: runner })),
  );
}

export function useRemoveRunner(org: string) {
  return useRunnersChange(org, (runnerId: string) =>
    data(api.DELETE(`${ALL}/{runnerId}`, { params: { path: { orgId: org, runnerId } } })),
  );
}
