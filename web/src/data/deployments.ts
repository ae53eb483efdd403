/** Deployments and the actions on them. */
import { infiniteQueryOptions, queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { Deployment } from "@/api/types";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const PAGE = 25;
const APPROVALS_MAX = 100;
/** Number of recent deployments offered as rollback targets. */
const RECENT_MAX = 100;

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

function page(org: string, pipelineId: string, limit: number, cursor?: string) {
  return body(
    api.GET("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", {
      params: { path: { orgId: org, pipelineId }, query: { limit, ...(cursor ? { cursor } : {}) } },
    }),
  );
}

/** The deployments of a pipeline, newest first. */
export function pipelineDeployments(org: string, pipelineId: string) {
  return infiniteQueryOptions({
    queryKey: key(org, "deployments", "pages", pipelineId),
    queryFn: ({ pageParam }) => page(org, pipelineId, PAGE, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}

export function recentDeploymentsQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: key(org, "deployments", "recent", pipelineId),
    queryFn: () => page(org, pipelineId, RECENT_MAX),
  });
}

/** All approvals of one deployment, whatever their status. */
export function deploymentApprovalsQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: key(org, "approvals", "of", deploymentId),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/approvals", {
          params: {
            path: { orgId: org },
            query: { status: "all", deployment: deploymentId, limit: APPROVALS_MAX },
          },
        }),
      ),
  });
}

/** Changes one deployment; the response is its new state. */
function useDeploymentMutation<Input>(org: string, change: (input: Input) => Promise<Deployment>) {
  const queries = useQueryClient();
  return useOrgMutation(org, ["deployments", "pipelines"], change, deployment =>
    queries.setQueryData(deploymentQuery(org, deployment.id).queryKey, deployment),
  );
}

export type Start = { commitId?: string; ref?: string; reason?: string; bypass?: { reason: string } };

export function useStart(org: string, pipelineId: string) {
  return useDeploymentMutation(org, (start: Start) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", {
        params: { path: { orgId: org, pipelineId } },
        body: start,
      }),
    ),
  );
}

/** Cancels one stage and those after it, or the whole deployment. */
export function useCancel(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, reason }: { stage?: string; reason?: string }) =>
    stage === undefined
      ? data(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/cancel", {
            params: { path: { orgId: org, deploymentId } },
            body: { reason },
          }),
        )
      : data(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/cancel", {
            params: { path: { orgId: org, deploymentId, stage } },
            body: { reason },
          }),
        ),
  );
}

export function useRetry(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, from }: { stage: string; from: "failed" | "start" }) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/retry", {
        params: { path: { orgId: org, deploymentId, stage } },
        body: { from },
      }),
    ),
  );
}

export type RollBack = { stage: string; to?: string; reason?: string };

/** Rolls back a stage. The response is the new deployment that does it. */
export function useRollBack(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, ...body }: RollBack) =>
    data(
      api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/rollback", {
        params: { path: { orgId: org, deploymentId, stage } },
        body,
      }),
    ),
  );
}

export function useResolve(org: string, deploymentId: string) {
  return useDeploymentMutation(
    org,
    ({ stepId, outcome }: { stepId: string; outcome: "ran" | "retry" | "fail" }) =>
      data(
        api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/resolve", {
          params: { path: { orgId: org, deploymentId, stepId } },
          body: { outcome },
        }),
      ),
  );
}

export type SoakAnswer = { stepId: string; choice: "end" | "reject"; reason?: string };

export function useSoak(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stepId, choice, reason }: SoakAnswer) => {
    const params = { path: { orgId: org, deploymentId, stepId } };
    return choice === "end"
      ? data(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/end-soak", {
            params,
            body: { reason },
          }),
        )
      : data(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/reject-soak", {
            params,
            body: { reason },
          }),
        );
  });
}
