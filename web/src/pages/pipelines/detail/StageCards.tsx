import { Card, Group, Stack, Text } from "@mantine/core";
import type { Pipeline, Stage } from "@/api/types";
import { PAUSED_STATUS_STYLE, RUN_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { FailedLink } from "@/ui/FailedLink";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge, StatusText } from "@/ui/StatusBadge";
import type { StageOccupant } from "./stageOccupants";

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
        <Text fw={650} className="clamp">
          {stage.name}
        </Text>
        {paused ? (
          <StatusBadge status={PAUSED_STATUS_STYLE} />
        ) : (
          (occupant || failed) && (
            <StatusBadge status={RUN_STATUS_STYLE[occupant ? occupant.stage.status : "failed"]} />
          )
        )}
      </Group>
      {failed && !occupant && <FailedLink failed={failed} />}
      {current ? (
        <Text size="sm" component="div">
          <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId: current.deploymentId }}>
            <CommitId id={current.commitId} />
          </Link>{" "}
          <Text span inherit c="dimmed">
            <RelativeTime at={current.at} /> by {current.by.name}
            {current.behindBy != null && `, ${formatBehind(current.behindBy)}`}
          </Text>
        </Text>
      ) : (
        <Text size="sm" c="dimmed">
          Nothing deployed yet
        </Text>
      )}
      {occupant && (
        <Text size="sm" component="div">
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: occupant.deployment.id }}
            inherit
            underline="always"
          >
            #{occupant.deployment.number}
          </Link>{" "}
          <StatusText status={RUN_STATUS_STYLE[occupant.stage.status]} />{" "}
          <CommitId id={occupant.deployment.resolvedCommitId ?? occupant.deployment.commitId} />
        </Text>
      )}
    </Stack>
  );
}

export function formatBehind(count: number): string {
  if (count === 0) return "up to date";
  return count === 1 ? "1 commit behind" : `${count} commits behind`;
}
