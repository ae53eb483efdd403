import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { Approval } from "@/api/types";
import { approvalTarget } from "@/data/deploymentAccess";
import { useOrg, usePermission } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { APPROVAL_STATUS_STYLE } from "@/theme/status";
import { ApprovalDialog } from "@/ui/approvals/ApprovalDialog";
import { ApprovalShortfall } from "@/ui/approvals/ApprovalShortfall";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { Countdown, RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";

type Props = { approval: Approval; isHighlighted: boolean };

/** One approval: what it unblocks, who can give it, and the votes so far. */
export function ApprovalCard({ approval, isHighlighted }: Props) {
  const org = useOrg();
  const pipeline = useQuery(pipelineQuery(org, approval.pipelineId)).data;
  const isStage = pipeline?.stages.some(each => each.name === approval.stage) ?? true;
  const target = approvalTarget(approval, { envName: isStage ? null : approval.stage }, pipeline?.slug);
  const mayDecide = usePermission("approvals:decide", target);
  const [choice, setChoice] = useState<"approve" | "reject" | null>(null);
  const card = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isHighlighted) card.current?.scrollIntoView({ block: "center" });
  }, [isHighlighted]);
  const { rule } = approval;
  const title = `${pipeline?.name ?? "Pipeline"} → ${approval.stage}`;
  return (
    <Card
      ref={card}
      component="article"
      aria-label={title}
      style={isHighlighted ? { outline: "2px solid var(--mantine-color-tide-5)" } : undefined}
    >
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Group gap="sm">
            <Title order={2}>
              <Link
                to="/o/$org/deployments/$deploymentId"
                params={{ org, deploymentId: approval.deploymentId }}
                inherit
                c="inherit"
                underline="hover"
              >
                {title}
              </Link>
            </Title>
            <StatusBadge status={APPROVAL_STATUS_STYLE[approval.status]} label={formatCount(approval)} />
          </Group>
          {approval.message && <Text className="wrap">{approval.message}</Text>}
          <Text size="sm" c="dimmed">
            {approval.commitId && (
              <>
                <CommitId id={approval.commitId} />,{" "}
              </>
            )}
            requested <RelativeTime at={approval.requestedAt} />
            {rule.from.length > 0 ? ` from ${rule.from.join(", ")}` : ""}
            {rule.selfApproval ? "" : ", no self-approval"}
            {approval.status === "pending" && approval.expiresAt && (
              <>
                , <Countdown until={approval.expiresAt} /> left
              </>
            )}
          </Text>
          {approval.votes.map(vote => (
            <Text key={vote.at} size="sm" className="wrap">
              {vote.actor.name} {vote.choice === "approve" ? "approved" : "rejected"}{" "}
              <RelativeTime at={vote.at} c="dimmed" />
              {vote.comment ? `: “${vote.comment}”` : ""}
              {vote.counts ? "" : " (no longer counts)"}
            </Text>
          ))}
          <ApprovalShortfall approval={approval} />
          {approval.lapsedBecause && <Text size="sm">{approval.lapsedBecause}</Text>}
        </Stack>
        {approval.status === "pending" && mayDecide && (
          <Group gap="xs">
            <Button onClick={() => setChoice("approve")}>Approve</Button>
            <Button variant="default" onClick={() => setChoice("reject")}>
              Reject
            </Button>
          </Group>
        )}
      </Group>
      {choice && (
        <ApprovalDialog approval={approval} title={title} choice={choice} onClose={() => setChoice(null)} />
      )}
    </Card>
  );
}

function formatCount({ status, given, required }: Approval): string | undefined {
  return status === "pending" ? `${given} of ${required} approvals` : undefined;
}
