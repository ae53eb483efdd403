/** Approvals and votes on them. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { Approval } from "@/api/types";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 100;

export function approvalsQuery(org: string, status: Approval["status"]) {
  return queryOptions({
    queryKey: key(org, "approvals", status),
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{orgId}/approvals", {
          params: { path: { orgId: org }, query: { status, limit: LIST_MAX } },
        }),
      ),
  });
}

export function pendingApprovalsQuery(org: string) {
  return approvalsQuery(org, "pending");
}

export type Answer = { id: string; choice: "approve" | "reject"; text: string };

export function useAnswer(org: string) {
  return useOrgMutation(org, ["approvals", "deployments"], ({ id, choice, text }: Answer) => {
    const params = { path: { orgId: org, approvalId: id } };
    const comment = text.trim() || undefined;
    return choice === "approve"
      ? data(
          api.POST("/api/v1/organizations/{orgId}/approvals/{approvalId}/approve", {
            params,
            body: { comment },
          }),
        )
      : data(
          api.POST("/api/v1/organizations/{orgId}/approvals/{approvalId}/reject", {
            params,
            body: { reason: comment },
          }),
        );
  });
}
