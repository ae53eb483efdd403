import { Group, Stack, Text } from "@mantine/core";
import { IconBolt, IconUsers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Environment } from "@/api/types";
import { useDeployedEnvironment } from "@/data/deployed";
import { type EnvironmentKey, queueQuery } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { LOCK_STATUS_STYLE } from "@/theme/status";
import { CommitLine } from "@/ui/commits/CommitLine";
import { DeploymentState } from "@/ui/DeploymentState";
import { PersonAvatar } from "@/ui/PersonAvatar";
import { PullRequestName } from "@/ui/pullRequests/PullRequestName";
import { SinceTime, UntilTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";
import { TakeoverText } from "@/ui/TakeoverText";

const NAMED_MAX = 3;

type Props = {
  where: EnvironmentKey;
  environment: Environment;
  /** The page shows the takeover and the queue in parts of their own. */
  isOnPage?: boolean;
};

/** The session on an environment: holder, times, reason, commit and queue. */
export function SessionSummary({ where, environment, isOnPage }: Props) {
  const me = useMe().user.id;
  const { lock, deployedCommitId } = environment;
  const deployed = useDeployedEnvironment(where.org, environment.id);
  return (
    <Stack gap={8}>
      {lock ? (
        <>
          <Group gap="sm" wrap="nowrap">
            <PersonAvatar name={lock.holder.name} size={36} />
            <div style={{ minWidth: 0 }}>
              <Text fw={600} className="clamp">
                Held by {formatHolder(lock, me)}
              </Text>
              <Text size="sm" c="dimmed">
                <SinceTime at={lock.claimedAt} />
                {" · "}
                {lock.expiresAt ? <UntilTime at={lock.expiresAt} /> : "no expiry"}
              </Text>
            </div>
          </Group>
          {lock.takeover && !isOnPage && (
            <Group gap={6} wrap="nowrap" c="var(--berth-warn)" role="status">
              <IconBolt size={16} aria-hidden style={{ flex: "none" }} />
              <Text size="sm" fw={600} className="wrap">
                <TakeoverText takeover={lock.takeover} />
              </Text>
            </Group>
          )}
          {environment.pullRequest && <PullRequestName of={environment.pullRequest} />}
          <Text className="wrap" c={lock.context ? undefined : "dimmed"}>
            {lock.context ? `“${lock.context}”` : "No reason given"}
          </Text>
        </>
      ) : (
        <Text fw={600} component="div">
          <StatusText status={LOCK_STATUS_STYLE.free} label="Free" />
        </Text>
      )}
      {deployedCommitId ? (
        <Group gap={6} align="baseline" component="div">
          <Text span c="dimmed">
            Deployed:{" "}
          </Text>
          <CommitLine commitId={deployedCommitId} commit={environment.commit} />
        </Group>
      ) : (
        !deployed?.deploying && !deployed?.failed && <Text c="dimmed">Nothing deployed yet</Text>
      )}
      {(deployed?.deploying || deployed?.failed) && (
        <Group gap="sm">
          <DeploymentState environment={deployed} />
        </Group>
      )}
      {environment.queueLength > 0 && !isOnPage && <QueueSummary where={where} />}
    </Stack>
  );
}

function QueueSummary({ where }: { where: EnvironmentKey }) {
  const me = useMe().user.id;
  const queue = useQuery(queueQuery(where)).data ?? [];
  if (queue.length === 0) return null;
  const names = queue.slice(0, NAMED_MAX).map(each => formatHolder(each, me));
  const more = queue.length - names.length;
  return (
    <Group gap={6} wrap="nowrap" c="var(--berth-warn)">
      <IconUsers size={16} aria-hidden style={{ flex: "none" }} />
      <Text size="sm">
        Queue: {names.join(", ")}
        {more > 0 && ` and ${more} more`}
      </Text>
    </Group>
  );
}
