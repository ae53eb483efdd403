import { Card, Group, Stack, Text } from "@mantine/core";
import type { Pipeline, Stage } from "@/api/types";
import type { StageOccupant } from "@/data/stageOccupants";
import {
  APPROVAL_STATUS_STYLE,
  PAUSED_STATUS_STYLE,
  RUN_STATUS_STYLE,
  type StatusStyle,
} from "@/theme/status";
import { CommitLine, CommitName } from "@/ui/commits/CommitLine";
import { FailedLink } from "@/ui/FailedLink";
import { Link } from "@/ui/Link";
import { StatusBadge, StatusText } from "@/ui/StatusBadge";

type Props = { org: string; pipeline: Pipeline; occupants: Map<string, StageOccupant> };

/** Stages as cards, for narrow screens. */
export function StageCards({ org, pipeline, occupants }: Props) {
  return (
    <Stack gap="sm">
      {pipeline.stages.map(stage => (
        <Card key={stage.name} padding="md">
          <StageContent org={org} stage={stage} occupant={occupants.get(stage.name)} />
        </Card>
      ))}
    </Stack>
  );
}

type ContentProps = { org: string; stage: Stage; occupant: StageOccupant | undefined };

/** The current deployment of a stage, and the one in progress. */
export function StageContent({ org, stage, occupant }: ContentProps) {
  const { current, failed, paused } = stage;
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Text fw={600} className="clamp">
          {stage.name}
        </Text>
        {paused ? (
          <StatusBadge status={PAUSED_STATUS_STYLE} />
        ) : (
          (occupant || failed) && (
            <StatusBadge status={occupant ? occupantStatus(occupant) : RUN_STATUS_STYLE.failed} />
          )
        )}
      </Group>
      {failed && !occupant && <FailedLink failed={failed} />}
      {current ? (
        <div>
          <CommitLine
            commitId={current.commitId}
            commit={current.commit}
            deploymentId={current.deploymentId}
            at={current.at}
            isShort
          />
          <Text size="xs" c="dimmed">
            {current.commit && `${current.commit.author.name}, `}deployed by {current.by.name}
            {current.behindBy != null && `, ${formatBehind(current.behindBy)}`}
          </Text>
        </div>
      ) : (
        <Text size="sm" c="dimmed">
          Nothing deployed yet
        </Text>
      )}
      {occupant && (
        <Text size="sm" component="div" className="clamp">
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: occupant.deployment.id }}
            inherit
            underline="always"
          >
            #{occupant.deployment.number}
          </Link>{" "}
          <StatusText status={occupantStatus(occupant)} />{" "}
          <CommitName
            commitId={occupant.deployment.resolvedCommitId ?? occupant.deployment.commitId}
            commit={occupant.deployment.commit}
          />
        </Text>
      )}
    </Stack>
  );
}

function occupantStatus(occupant: StageOccupant): StatusStyle {
  return occupant.needsApproval
    ? { ...APPROVAL_STATUS_STYLE.pending, label: "needs approval" }
    : RUN_STATUS_STYLE[occupant.stage.status];
}

export function formatBehind(count: number): string {
  if (count === 0) return "up to date";
  return count === 1 ? "1 commit behind" : `${count} commits behind`;
}
