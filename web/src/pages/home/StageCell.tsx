import { Group, Text } from "@mantine/core";
import { IconArrowDown, IconCheck } from "@tabler/icons-react";
import type { Stage } from "@/api/types";
import { useOrg } from "@/data/me";
import { PAUSED_STATUS_STYLE, RUN_STATUS_STYLE, type StatusStyle } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { FailedLink } from "@/ui/FailedLink";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import classes from "./home.module.css";

function behindStatus(
  behindBy: number | null | undefined,
  commit: string,
  head: string | null,
): StatusStyle | null {
  if (behindBy === 0 || (head !== null && head === commit)) {
    return { label: "up to date", tone: "good", icon: IconCheck };
  }
  return behindBy ? { label: `${behindBy} behind`, tone: "warn", icon: IconArrowDown } : null;
}

/** The current deployment of a stage, and how many commits it is behind. */
export function StageCell({ stage, head }: { stage: Stage; head: string | null }) {
  const org = useOrg();
  const { current, failed, paused } = stage;
  const behind = current ? behindStatus(current.behindBy, current.commitId, head) : null;
  return (
    <div className={classes.stage}>
      <Group justify="space-between" gap={6} wrap="nowrap">
        <Text fw={600} className="clamp">
          {stage.name}
        </Text>
        {failed ? (
          <StatusBadge status={RUN_STATUS_STYLE.failed} />
        ) : paused ? (
          <StatusBadge status={PAUSED_STATUS_STYLE} />
        ) : (
          behind && <StatusBadge status={behind} />
        )}
      </Group>
      {failed && <FailedLink failed={failed} />}
      {current ? (
        <>
          {failed && (
            <Text span size="sm" c="dimmed">
              Deployed:{" "}
            </Text>
          )}
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: current.deploymentId }}
            className="clamp"
            display={failed ? undefined : "block"}
          >
            <CommitId id={current.commitId} />
          </Link>
          <Text size="sm" c="dimmed">
            <RelativeTime at={current.at} /> by {current.by.name}
          </Text>
        </>
      ) : (
        <Text size="sm" c="dimmed">
          Nothing deployed yet
        </Text>
      )}
    </div>
  );
}
