/** Deployments. */
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { key } from "./keys";

export function deploymentQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: key(org, "deployments", "one", deploymentId),
    queryFn: () =>
      data(
        api.GET("/api/v1/organizations/{orgId}/deployments/{deploymentId}", {
          params: { path: { orgId: org, deploymentId } },
        }),
      ),
  });
}
