import { Group, Text } from "@mantine/core";
import { IconArrowDown, IconCheck } from "@tabler/icons-react";
import type { Stage } from "@/api/types";
import { useOrg } from "@/data/me";
import { PAUSED_STATUS_STYLE, type StatusStyle } from "@/theme/status";
import { Commit } from "@/ui/Commit";
import { Link } from "@/ui/Link";
import { Status } from "@/ui/Status";
import { When } from "@/ui/When";
import classes from "./home.module.css";

function howFar(
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
  const { current, paused } = stage;
  const far = current ? howFar(current.behindBy, current.commitId, head) : null;
  return (
    <div className={classes.stage}>
      <Group justify="space-between" gap={6} wrap="nowrap">
        <Text fw={600} className="clamp">
          {stage.name}
        </Text>
        {paused ? <Status status={PAUSED_STATUS_STYLE} /> : far && <Status status={far} />}
      </Group>
      {current ? (
        <>
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: current.deploymentId }}
            className="clamp"
            display="block"
          >
            <Commit id={current.commitId} />
          </Link>
          <Text size="sm" c="dimmed">
            <When at={current.at} />, by {current.by.name}
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
