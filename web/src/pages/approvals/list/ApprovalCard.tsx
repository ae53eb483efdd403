import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { Approval } from "@/api/types";
import { approvalTarget } from "@/data/deploymentAccess";
import { useMe, useOrg, usePermission } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { APPROVAL_STATUS_STYLE, RUN_STATUS_STYLE } from "@/theme/status";
import { ApprovalDialog } from "@/ui/approvals/ApprovalDialog";
import { ApprovalShortfall } from "@/ui/approvals/ApprovalShortfall";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge, StatusText } from "@/ui/StatusBadge";
import { ApprovalChangeList } from "./ApprovalChangeList";
import { formatNeeds, formatWhyNot } from "./approvalRule";

export type ApprovalChoice = "approve" | "reject";

type Props = { approval: Approval; isHighlighted: boolean; initialChoice?: ApprovalChoice | null };

/** One approval: what it unblocks, who can give it, and the votes so far. */
export function ApprovalCard({ approval, isHighlighted, initialChoice = null }: Props) {
  const org = useOrg();
  const pipeline = useQuery(pipelineQuery(org, approval.pipelineId)).data;
  const isStage = pipeline?.stages.some(each => each.name === approval.stage) ?? true;
  const target = approvalTarget(approval, { envName: isStage ? null : approval.stage }, pipeline?.slug);
  const mayDecide = usePermission("approvals:decide", target);
  const [choice, setChoice] = useState<ApprovalChoice | null>(initialChoice);
  useEffect(() => {
    if (initialChoice) setChoice(initialChoice);
  }, [initialChoice]);
  const card = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isHighlighted) card.current?.scrollIntoView({ block: "center" });
  }, [isHighlighted]);
  const { rule } = approval;
  const isPending = approval.status === "pending";
  const whyNot = formatWhyNot(approval, useMe().user, mayDecide);
  const stages = pipeline?.stages ?? [];
  const before = stages[stages.findIndex(each => each.name === approval.stage) - 1];
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
          {approval.commitId && (
            <CommitLine
              commitId={approval.commitId}
              commit={approval.commit}
              compareUrl={approval.compareUrl}
              deploymentId={approval.deploymentId}
            />
          )}
          <Text size="sm" c="dimmed">
            {isPending ? `${formatNeeds(approval)}, requested ` : "Requested "}
            <RelativeTime at={approval.requestedAt} />
            {rule.selfApproval ? "" : ", no self-approval"}
            {isPending && approval.expiresAt && (
              <>
                , expires <RelativeTime at={approval.expiresAt} />
              </>
            )}
          </Text>
          {before?.current && before.current.commitId === approval.commitId && (
            <Text size="sm">
              <StatusText status={RUN_STATUS_STYLE.succeeded} label={before.name} />{" "}
              <RelativeTime at={before.current.at} c="dimmed" />
            </Text>
          )}
          {approval.votes.map(vote => (
            <Text key={vote.at} size="sm" className="wrap">
              {vote.actor.name} {vote.choice === "approve" ? "approved" : "rejected"}{" "}
              <RelativeTime at={vote.at} c="dimmed" />
              {vote.comment ? `: “${vote.comment}”` : ""}
              {vote.counts ? "" : " (no longer counts)"}
            </Text>
          ))}
          <ApprovalShortfall approval={approval} />
          {isPending && whyNot && (
            <Text size="sm" c="var(--berth-warn)">
              {whyNot}
            </Text>
          )}
          {approval.lapsedBecause && <Text size="sm">{approval.lapsedBecause}</Text>}
        </Stack>
        {isPending && mayDecide && (
          <Group gap="xs">
            {!whyNot && <Button onClick={() => setChoice("approve")}>Approve</Button>}
            <Button variant="default" onClick={() => setChoice("reject")}>
              Reject
            </Button>
          </Group>
        )}
      </Group>
      {isPending && approval.commitId && (
        <ApprovalChangeList
          org={org}
          approvalId={approval.id}
          stage={approval.stage}
          isDeployed={stages.some(each => each.name === approval.stage && each.current)}
        />
      )}
      {choice && (
        <ApprovalDialog approval={approval} title={title} choice={choice} onClose={() => setChoice(null)} />
      )}
    </Card>
  );
}

function formatCount({ status, given, required }: Approval): string | undefined {
  return status === "pending" ? `${given} of ${required} approvals` : undefined;
}
