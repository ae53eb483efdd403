import { Avatar, Group, Stack, Text } from "@mantine/core";
import { IconAnchor, IconBolt, IconUsers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Environment } from "@/api/types";
import { type EnvironmentKey, queueQuery } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { CommitId } from "@/ui/CommitId";
import { PullRequestName } from "@/ui/pullRequests/PullRequestName";
import { SinceTime, UntilTime } from "@/ui/RelativeTime";
import { TakeoverText } from "@/ui/TakeoverText";

const NAMED_MAX = 3;

/** The session on an environment: holder, times, reason, commit and queue. */
export function SessionSummary({ where, environment }: { where: EnvironmentKey; environment: Environment }) {
  const me = useMe().user.id;
  const { lock, deployedCommitId } = environment;
  return (
    <Stack gap={8}>
      {lock ? (
        <>
          <Group gap="sm" wrap="nowrap">
            <Avatar name={lock.holder.name} color="tide" size={36} radius="xl" />
            <div style={{ minWidth: 0 }}>
              <Text fw={600} className="clamp">
                Held by {formatHolder(lock, me)}
              </Text>
              <Text size="sm" c="dimmed">
                <SinceTime at={lock.claimedAt} />
                {" · "}
                {lock.expiresAt ? <UntilTime at={lock.expiresAt} /> : "no expiry"}
                {" · "}fencing token {lock.fence}
              </Text>
            </div>
          </Group>
          {lock.takeover && (
            <Group gap={6} wrap="nowrap" c="var(--berth-warn)" role="status">
              <IconBolt size={16} aria-hidden style={{ flex: "none" }} />
              <Text size="sm" fw={600} className="wrap">
                <TakeoverText takeover={lock.takeover} />
              </Text>
            </Group>
          )}
          {environment.pullRequest && <PullRequestName of={environment.pullRequest} />}
          <Text
            size="sm"
            className="wrap"
            fs={lock.context ? undefined : "italic"}
            c={lock.context ? undefined : "dimmed"}
          >
            {lock.context ? `“${lock.context}”` : "No reason given"}
          </Text>
        </>
      ) : (
        <Group gap="xs" c="var(--berth-good)">
          <IconAnchor size={20} aria-hidden />
          <Text fw={600}>Free</Text>
        </Group>
      )}
      <Text size="sm" c="dimmed">
        {deployedCommitId ? (
          <>
            Deployed: <CommitId id={deployedCommitId} />
          </>
        ) : (
          "Nothing deployed yet"
        )}
      </Text>
      {environment.queueLength > 0 && <QueueSummary where={where} />}
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
