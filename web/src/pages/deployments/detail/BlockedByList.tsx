import { Button, Card, Group, Stack, Text, ThemeIcon } from "@mantine/core";
import {
  IconAlertTriangle,
  IconArrowsExchange,
  IconClock,
  IconHourglass,
  IconPlayerPause,
  IconThumbUp,
  type TablerIcon,
} from "@tabler/icons-react";
import { useState } from "react";
import type { Approval, BlockedBy, Deployment, Pipeline } from "@/api/types";
import { useNow } from "@/data/clock";
import { approvalTarget, mayOperate } from "@/data/deploymentAccess";
import { useAccess } from "@/data/me";
import { may } from "@/data/permissions";
import {
  findBlockingApproval,
  findBlockingDeployment,
  findBlockingStep,
  formatBlocked,
} from "@/format/blocked";
import { listStageSteps } from "@/format/run";
import { capitalize } from "@/format/text";
import { ApprovalDialog } from "@/ui/approvals/ApprovalDialog";
import { ApprovalShortfall } from "@/ui/approvals/ApprovalShortfall";
import { Link } from "@/ui/Link";
import { Countdown, RelativeTime } from "@/ui/RelativeTime";
import { ResolveDialog } from "../dialogs/ResolveDialog";
import { SoakDialog } from "../dialogs/SoakDialog";

const ICONS: Record<BlockedBy["kind"], TablerIcon> = {
  approval: IconThumbUp,
  window: IconClock,
  soak: IconClock,
  unknown_outcome: IconAlertTriangle,
  pipeline_stopped: IconPlayerPause,
  promotion_paused: IconPlayerPause,
  environment_contested: IconArrowsExchange,
  environment_resetting: IconArrowsExchange,
  queue: IconHourglass,
  earlier_stage: IconHourglass,
  no_runner: IconHourglass,
};

type Props = {
  org: string;
  pipelineId: string;
  pipeline: Pipeline | undefined;
  deployment: Deployment;
  approvals: Approval[];
};

/** What the deployment waits for, with the actions that unblock it. */
export function BlockedByList({ approvals, ...rest }: Props) {
  const { deployment } = rest;
  if (deployment.blockedBy.length === 0) return null;
  return (
    <Stack gap="xs">
      {deployment.blockedBy.map(blocked => (
        <BlockedByCard
          key={`${blocked.kind}${blocked.detail}`}
          {...rest}
          blocked={blocked}
          approval={approvals.find(each => each.id === findBlockingApproval(blocked))}
        />
      ))}
    </Stack>
  );
}

type BlockedByCardProps = Omit<Props, "approvals"> & { blocked: BlockedBy; approval: Approval | undefined };

function BlockedByCard(props: BlockedByCardProps) {
  const { org, pipelineId, blocked, approval } = props;
  const now = useNow();
  const Icon = ICONS[blocked.kind] ?? IconHourglass;
  const other = findBlockingDeployment(blocked);
  return (
    <Card padding="md" style={{ borderColor: "var(--berth-warn)" }} data-waits-for={blocked.kind}>
      <Group justify="space-between" gap="md">
        <Group gap="sm" wrap="nowrap" style={{ flex: "1 1 18rem", minWidth: 0 }} align="flex-start">
          <ThemeIcon variant="light" color="lantern" radius="xl" style={{ color: "var(--berth-warn)" }}>
            <Icon size={16} stroke={2} aria-hidden />
          </ThemeIcon>
          <div style={{ minWidth: 0 }}>
            <Text fw={550} className="wrap">
              {capitalize(formatBlocked(blocked, now, approval))}
            </Text>
            <Text size="sm" c="dimmed" component="div">
              {approval && <ApprovalFacts approval={approval} />}
              {blocked.kind === "soak" && blocked.clearsAt && (
                <>
                  <Countdown until={blocked.clearsAt} /> left
                </>
              )}
              {blocked.kind === "window" && blocked.clearsAt && <RelativeTime at={blocked.clearsAt} />}
              {other && (
                <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId: other }} size="sm">
                  View that deployment
                </Link>
              )}
              {(blocked.kind === "pipeline_stopped" || blocked.kind === "promotion_paused") && (
                <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId }} size="sm">
                  Resume the pipeline
                </Link>
              )}
            </Text>
          </div>
        </Group>
        <BlockedByActions {...props} />
      </Group>
    </Card>
  );
}

function ApprovalFacts({ approval }: { approval: Approval }) {
  return (
    <>
      {approval.message && <div className="wrap">“{approval.message}”</div>}
      {approval.votes.map(vote => (
        <div key={`${vote.actor.name}${vote.at}`} className="wrap">
          {vote.actor.name} {vote.choice === "approve" ? "approved" : "rejected"}{" "}
          <RelativeTime at={vote.at} />
          {vote.comment && `: “${vote.comment}”`}
          {!vote.counts && " (no longer counts)"}
        </div>
      ))}
      {!approval.rule.selfApproval && (
        <div>Its author and the users who started or retried it cannot approve.</div>
      )}
      <ApprovalShortfall approval={approval} />
      {approval.expiresAt && (
        <div>
          Expires <RelativeTime at={approval.expiresAt} />
        </div>
      )}
    </>
  );
}

type OpenDialog = "approve" | "reject" | "end" | "refuse" | "resolve" | null;

function BlockedByActions({ org, pipeline, deployment, blocked, approval }: BlockedByCardProps) {
  const [open, setOpen] = useState<OpenDialog>(null);
  const access = useAccess();
  const close = () => setOpen(null);
  const stepId = findBlockingStep(blocked);
  const found = listStageSteps(deployment).find(each => each.step.id === stepId);
  const step = found?.step;
  const mayResolve = mayOperate(access, deployment, pipeline, found ? { only: found.stage.name } : "all");
  if (approval && may(access, "approvals:decide", approvalTarget(approval, deployment, pipeline?.slug))) {
    return (
      <Group gap="xs">
        <Button size="sm" onClick={() => setOpen("approve")}>
          Approve
        </Button>
        <Button size="sm" variant="default" onClick={() => setOpen("reject")}>
          Reject
        </Button>
        {(open === "approve" || open === "reject") && (
          <ApprovalDialog approval={approval} title={approval.stage} choice={open} onClose={close} />
        )}
      </Group>
    );
  }
  if (!stepId || !mayResolve) return null;
  const at = { org, deploymentId: deployment.id, stepId, onClose: close };
  if (blocked.kind === "soak") {
    return (
      <Group gap="xs">
        <Button size="sm" onClick={() => setOpen("end")}>
          End soak
        </Button>
        <Button size="sm" variant="default" onClick={() => setOpen("refuse")}>
          Reject
        </Button>
        {open === "end" && <SoakDialog {...at} choice="end" />}
        {open === "refuse" && <SoakDialog {...at} choice="reject" />}
      </Group>
    );
  }
  if (blocked.kind !== "unknown_outcome") return null;
  return (
    <>
      <Button size="sm" onClick={() => setOpen("resolve")}>
        Resolve
      </Button>
      {open === "resolve" && <ResolveDialog {...at} name={step?.name ?? "the step"} />}
    </>
  );
}
