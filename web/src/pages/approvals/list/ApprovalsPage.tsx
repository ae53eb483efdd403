import { SegmentedControl, Stack } from "@mantine/core";
import { IconThumbUp } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Approval } from "@/api/types";
import { approvalsQuery } from "@/data/approvals";
import { useOrg } from "@/data/me";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { useLinkedAction } from "@/ui/useLinkedAction";
import { ApprovalCard, type ApprovalChoice } from "./ApprovalCard";

const STATUSES: { value: Approval["status"]; label: string }[] = [
  { value: "pending", label: "Pending" },
  { value: "approved", label: "Approved" },
  { value: "rejected", label: "Rejected" },
  { value: "expired", label: "Expired" },
];

const APPROVAL_YAML = `stages:
  - name: production
    requires: { approvals: 1 }
`;

/** Pending and decided approvals. */
export function ApprovalsPage() {
  const org = useOrg();
  const search = useSearch({ from: "/o/$org/approvals" });
  const navigate = useNavigate({ from: "/o/$org/approvals" });
  const [linked, setLinked] = useState<{ id: string | undefined; choice: ApprovalChoice } | null>(null);
  useLinkedAction(["approve", "reject"], choice => setLinked({ id: search.approval, choice }));
  const status = STATUSES.find(each => each.value === search.status)?.value ?? "pending";
  const approvals = useQuery(approvalsQuery(org, status));
  return (
    <Page title="Approvals" lead="Deployments waiting for approval">
      <SegmentedControl
        data={STATUSES}
        value={status}
        aria-label="Status"
        style={{ alignSelf: "flex-start", maxWidth: "100%" }}
        onChange={value =>
          navigate({ search: { status: value === "pending" ? undefined : value }, replace: true })
        }
      />
      <QueryResult of={approvals}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState
              icon={IconThumbUp}
              title={status === "pending" ? "No pending approvals" : `No ${status} approvals`}
            >
              {status === "pending" && (
                <Stack gap="sm" w="100%">
                  <div>To require approvals, add this to a stage of your pipeline:</div>
                  <Snippet label="Stage with an approval" text={APPROVAL_YAML} />
                </Stack>
              )}
            </EmptyState>
          ) : (
            <Stack>
              {data.map(each => (
                <ApprovalCard
                  key={each.id}
                  approval={each}
                  isHighlighted={each.id === search.approval}
                  initialChoice={linked?.id === each.id ? linked.choice : null}
                />
              ))}
            </Stack>
          )
        }
      </QueryResult>
    </Page>
  );
}
