import { Card, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Environment, Ticket } from "@/api/types";
import { type EnvironmentKey, queueQuery } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { capitalize } from "@/format/text";
import { formatRoughDuration } from "@/format/time";
import { CommitId } from "@/ui/CommitId";
import { PersonAvatar } from "@/ui/PersonAvatar";
import { SinceTime } from "@/ui/RelativeTime";
import classes from "./environment.module.css";

/** When the ticket is granted, and what the estimate is based on. An expiry is an upper limit. */
export function formatEta({ etaSeconds, etaBasis, position }: Ticket, holder: string | undefined): string {
  if (etaSeconds == null) return "Start unknown: the session ahead does not expire";
  const duration = formatRoughDuration(etaSeconds);
  if (etaBasis === "history") return `Starts in about ${duration}, judging by earlier sessions`;
  const ahead = position === 1 && holder ? `${holder}’s session expires` : "the sessions ahead expire";
  return `Starts in at most ${duration}, when ${ahead}`;
}

function formatWaiting(ticket: Ticket, me: string): string {
  const label = formatHolder(ticket, me);
  return ticket.holder.id === me ? capitalize(label) : label;
}

/** Tickets in the queue, in order. */
export function QueueCard({ where, environment }: { where: EnvironmentKey; environment: Environment }) {
  const me = useMe().user.id;
  const queue = useQuery(queueQuery(where)).data ?? [];
  if (queue.length === 0) return null;
  return (
    <Card component="section" aria-label="Queue">
      <Title order={2} mb="xs">
        Queue
      </Title>
      <ol className={classes.queue}>
        {queue.map(each => (
          <li key={each.ticketId}>
            <PersonAvatar name={each.holder.name} size={24} />
            <div className={classes.ticket}>
              <span>
                <Text span fw={600}>
                  {formatWaiting(each, me)}
                </Text>{" "}
                {each.context && <span className="wrap">“{each.context}”</span>}{" "}
                {each.commitId && <CommitId id={each.commitId} />}
              </span>
              <Text size="xs" c="dimmed">
                {each.takeoverAt ? "Takeover announced" : formatEta(each, environment.lock?.holder.name)}
                {" · waiting "}
                <SinceTime at={each.createdAt} />
              </Text>
            </div>
          </li>
        ))}
      </ol>
    </Card>
  );
}
