import { Card, Group, List, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Ticket } from "@/api/types";
import { queueQuery, type Where } from "@/data/environments";
import { useMe } from "@/data/me";
import { roughly } from "@/format/time";
import { Commit } from "@/ui/Commit";
import { Since } from "@/ui/When";

/** A time limit is certain; how long earlier sessions lasted is a guess. */
function eta({ etaSeconds, etaBasis }: Ticket): string {
  if (etaSeconds == null) return "";
  return `, in ${etaBasis === "expiry" ? "at most" : "about"} ${roughly(etaSeconds)}`;
}

/** Who waits, in order. */
export function Queue({ where }: { where: Where }) {
  const me = useMe().user.id;
  const line = useQuery(queueQuery(where)).data ?? [];
  if (line.length === 0) return null;
  return (
    <Card component="section" aria-label="In line">
      <Title order={2} mb="sm">
        In line
      </Title>
      <List type="ordered" spacing={6}>
        {line.map(each => (
          <List.Item key={each.ticketId}>
            <Group gap="xs">
              <Text fw={550}>{each.holder.id === me ? "You" : each.holder.name}</Text>
              {each.commitId && <Commit id={each.commitId} />}
              {each.context && <Text size="sm">“{each.context}”</Text>}
              <Text size="sm" c="dimmed">
                <Since at={each.createdAt} />
                {eta(each)}
                {each.takeoverAt ? ", takes over" : ""}
              </Text>
            </Group>
          </List.Item>
        ))}
      </List>
    </Card>
  );
}
