import { Card, Group, List, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Ticket } from "@/api/types";
import { type EnvironmentKey, queueQuery } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { capitalize } from "@/format/text";
import { formatRoughDuration } from "@/format/time";
import { CommitId } from "@/ui/CommitId";
import { SinceTime } from "@/ui/RelativeTime";

/** An expiry is an upper limit; the duration of earlier sessions is an estimate. */
function formatEta({ etaSeconds, etaBasis }: Ticket): string {
  if (etaSeconds == null) return "";
  return `, starts in ${etaBasis === "expiry" ? "at most" : "about"} ${formatRoughDuration(etaSeconds)}`;
}

function formatWaiting(ticket: Ticket, me: string): string {
  const label = formatHolder(ticket, me);
  return ticket.holder.id === me ? capitalize(label) : label;
}

/** Tickets in the queue, in order. */
export function QueueCard({ where }: { where: EnvironmentKey }) {
  const me = useMe().user.id;
  const queue = useQuery(queueQuery(where)).data ?? [];
  if (queue.length === 0) return null;
  return (
    <Card component="section" aria-label="Queue">
      <Title order={2} mb="sm">
        Queue
      </Title>
      <List type="ordered" spacing={6}>
        {queue.map(each => (
          <List.Item key={each.ticketId}>
            <Group gap="xs">
              <Text fw={550}>{formatWaiting(each, me)}</Text>
              {each.commitId && <CommitId id={each.commitId} />}
              {each.context && <Text size="sm">“{each.context}”</Text>}
              <Text size="sm" c="dimmed">
                waiting <SinceTime at={each.createdAt} />
                {formatEta(each)}
                {each.takeoverAt ? ", takeover scheduled" : ""}
              </Text>
            </Group>
          </List.Item>
        ))}
      </List>
    </Card>
  );
}
