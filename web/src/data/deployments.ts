/** Deployments and the actions on them. */
import { infiniteQueryOptions, queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { Deployment } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const PAGE = 25;
const APPROVALS_MAX = 100;
/** Number of recent deployments that can be found, and that are offered as rollback targets. */
const RECENT_MAX = 100;
/** Number of deployments of one commit that can be found. */
const OF_COMMIT_MAX = 10;

export function deploymentQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deployments", "one", deploymentId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/deployments/{deploymentId}", {
          params: { path: { orgId: org, deploymentId } },
        }),
      ),
  });
}

/** `stage` is a stage or an environment. */
export type DeploymentFilter = { stage?: string; status?: string };

type Paging = { limit: number; cursor?: string };

/** The URL may contain an unknown status; the server rejects it. */
function fetchPage(org: string, pipelineId: string, { stage, status }: DeploymentFilter, paging: Paging) {
  const filter = { stage, status: status as Deployment["status"] | undefined };
  return fetchBody(
    api.GET("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", {
      params: { path: { orgId: org, pipelineId }, query: { ...filter, ...paging } },
    }),
  );
}

/** The deployments of a pipeline, newest first. */
export function pipelineDeploymentsQuery(org: string, pipelineId: string, filter: DeploymentFilter = {}) {
  return infiniteQueryOptions({
    queryKey: resourceKey(org, "deployments", "pages", pipelineId, filter),
    queryFn: ({ pageParam }) => fetchPage(org, pipelineId, filter, { limit: PAGE, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: last => last.pagination.nextCursor ?? undefined,
  });
}

export function recentDeploymentsQuery(org: string, pipelineId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deployments", "recent", pipelineId),
    queryFn: () => fetchPage(org, pipelineId, {}, { limit: RECENT_MAX }),
  });
}

/** The newest deployments of the organization. */
export function newestDeploymentsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deployments", "newest"),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/deployments", {
          params: { path: { orgId: org }, query: { limit: RECENT_MAX } },
        }),
      ),
  });
}

/** Deployments of a branch or tag as given in the request, or of a commit by the beginning of its hash. */
export function deploymentsOfCommitQuery(org: string, commit: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deployments", "commit", commit),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/deployments", {
          params: { path: { orgId: org }, query: { commit, limit: OF_COMMIT_MAX } },
        }),
      ),
  });
}

/** Deployments with this status, newest first. */
export function deploymentsWithStatusQuery(org: string, status: Deployment["status"]) {
  return queryOptions({
    queryKey: resourceKey(org, "deployments", "status", status),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/deployments", {
          params: { path: { orgId: org }, query: { status, limit: RECENT_MAX } },
        }),
      ),
  });
}

/** All approvals of one deployment, whatever their status. */
export function deploymentApprovalsQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "approvals", "of", deploymentId),
    queryFn: () =>
      fetchBody(
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

export type DeploymentRequest = {
  commitId?: string;
  ref?: string;
  reason?: string;
  bypass?: { reason: string };
};

export function useStartDeployment(org: string, pipelineId: string) {
  return useDeploymentMutation(org, (start: DeploymentRequest) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/pipelines/{pipelineId}/deployments", {
        params: { path: { orgId: org, pipelineId } },
        body: start,
      }),
    ),
  );
}

/** Cancels one stage and those after it, or the whole deployment. */
export function useCancelDeployment(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, reason }: { stage?: string; reason?: string }) =>
    stage === undefined
      ? fetchData(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/cancel", {
            params: { path: { orgId: org, deploymentId } },
            body: { reason },
          }),
        )
      : fetchData(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/cancel", {
            params: { path: { orgId: org, deploymentId, stage } },
            body: { reason },
          }),
        ),
  );
}

export function useRetryStage(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, from }: { stage: string; from: "failed" | "start" }) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/retry", {
        params: { path: { orgId: org, deploymentId, stage } },
        body: { from },
      }),
    ),
  );
}

export type RollbackRequest = { stage: string; to?: string; reason?: string };

/** Rolls back a stage. The response is the new deployment that does it. */
export function useRollBackStage(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stage, ...body }: RollbackRequest) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/stages/{stage}/rollback", {
        params: { path: { orgId: org, deploymentId, stage } },
        body,
      }),
    ),
  );
}

export function useResolveStep(org: string, deploymentId: string) {
  return useDeploymentMutation(
    org,
    ({ stepId, outcome }: { stepId: string; outcome: "ran" | "retry" | "fail" }) =>
      fetchData(
        api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/resolve", {
          params: { path: { orgId: org, deploymentId, stepId } },
          body: { outcome },
        }),
      ),
  );
}

export type SoakDecision = { stepId: string; choice: "end" | "reject"; reason?: string };

export function useDecideSoak(org: string, deploymentId: string) {
  return useDeploymentMutation(org, ({ stepId, choice, reason }: SoakDecision) => {
    const params = { path: { orgId: org, deploymentId, stepId } };
    return choice === "end"
      ? fetchData(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/end-soak", {
            params,
            body: { reason },
          }),
        )
      : fetchData(
          api.POST("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/reject-soak", {
            params,
            body: { reason },
          }),
        );
  });
}
