/** Approvals and votes on them. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { Approval } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 100;

export function approvalsQuery(org: string, status: Approval["status"]) {
  return queryOptions({
    queryKey: resourceKey(org, "approvals", status),
    queryFn: () =>
      fetchBody(
        api.GET("/api/v1/organizations/{orgId}/approvals", {
          params: { path: { orgId: org }, query: { status, limit: LIST_MAX } },
        }),
      ),
  });
}

export function pendingApprovalsQuery(org: string) {
  return approvalsQuery(org, "pending");
}

/** What deploying the approved commit changes, compared with what is deployed now. */
export function approvalChangesQuery(org: string, approvalId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "approvals", "changes", approvalId),
    queryFn: () =>
      fetchData(
        api.GET("/api/v1/organizations/{orgId}/approvals/{approvalId}/changes", {
          params: { path: { orgId: org, approvalId } },
        }),
      ),
  });
}

export type ApprovalDecision = { id: string; choice: "approve" | "reject"; text: string };

export function useDecideApproval(org: string) {
  return useOrgMutation(org, ["approvals", "deployments"], ({ id, choice, text }: ApprovalDecision) => {
    const params = { path: { orgId: org, approvalId: id } };
    const comment = text.trim() || undefined;
    return choice === "approve"
      ? fetchData(
          api.POST("/api/v1/organizations/{orgId}/approvals/{approvalId}/approve", {
            params,
            body: { comment },
          }),
        )
      : fetchData(
          api.POST("/api/v1/organizations/{orgId}/approvals/{approvalId}/reject", {
            params,
            body: { reason: comment },
          }),
        );
  });
}
