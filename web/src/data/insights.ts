/** The four DORA metrics. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, fetchData } from "@/api/client";
import { resourceKey } from "./queryKeys";

const DAY_MS = 86_400_000;

export function deliveryQuery(org: string, days: number, pipeline: string | undefined) {
  return queryOptions({
    queryKey: resourceKey(org, "insights", "delivery", days, pipeline),
    queryFn: () => {
      const from = new Date(Date.now() - days * DAY_MS).toISOString();
      return fetchData(
        api.GET("/api/v1/organizations/{orgId}/insights", {
          params: { path: { orgId: org }, query: { from, ...(pipeline ? { pipeline } : {}) } },
        }),
      );
    },
    placeholderData: keepPreviousData,
  });
}
