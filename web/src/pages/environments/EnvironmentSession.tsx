import { Avatar, Group, Stack, Text } from "@mantine/core";
import { IconAnchor, IconUsers } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Environment } from "@/api/types";
import { queueQuery, type Where } from "@/data/environments";
import { useMe } from "@/data/me";
import { Commit } from "@/ui/Commit";
import { Countdown, Since } from "@/ui/When";

const NAMED_MAX = 3;

/** Who holds it, since when, until when, why, with which commit; and who waits. */
export function EnvironmentSession({ where, environment }: { where: Where; environment: Environment }) {
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
                Held by {lock.holder.id === me ? "you" : lock.holder.name}
              </Text>
              <Text size="sm" c="dimmed">
                <Since at={lock.claimedAt} />
                {" · "}
                {lock.expiresAt ? (
                  <>
                    <Countdown until={lock.expiresAt} /> left
                  </>
                ) : (
                  "no end set"
                )}
                {" · "}hold no. {lock.fence}
              </Text>
            </div>
          </Group>
          <Text
            size="sm"
            className="wrap"
            fs={lock.context ? undefined : "italic"}
            c={lock.context ? undefined : "dimmed"}
          >
            {lock.context ? `“${lock.context}”` : "no reason given"}
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
            has <Commit id={deployedCommitId} />
          </>
        ) : (
          "nothing deployed yet"
        )}
      </Text>
      {environment.queueLength > 0 && <Queue where={where} />}
    </Stack>
  );
}

function Queue({ where }: { where: Where }) {
  const me = useMe().user.id;
  const line = useQuery(queueQuery(where)).data ?? [];
  if (line.length === 0) return null;
  const names = line.slice(0, NAMED_MAX).map(each => (each.holder.id === me ? "you" : each.holder.name));
  const more = line.length - names.length;
  return (
    <Group gap={6} wrap="nowrap" c="var(--berth-warn)">
      <IconUsers size={16} aria-hidden style={{ flex: "none" }} />
      <Text size="sm">
        In line: {names.join(", ")}
        {more > 0 && ` and ${more} more`}
      </Text>
    </Group>
  );
}
