import { ActionIcon, Box, Text } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Event } from "@/api/types";
import { eventStyle } from "@/ui/events/eventKind";
import { RelativeTime } from "@/ui/RelativeTime";
import { EventDetails } from "./EventDetails";
import { EventSentence } from "./EventSentence";
import classes from "./events.module.css";

const ROUTE = "/o/$org/events";

/** An event as a sentence; opened, all of its data. */
export function EventRow({ event }: { event: Event }) {
  const navigate = useNavigate({ from: ROUTE });
  const isOpen = useSearch({ from: ROUTE }).event === event.id;
  return (
    <Box component="li" className={classes.row}>
      <EventLine
        event={event}
        isOpen={isOpen}
        label={`Data of “${event.summary}”`}
        onToggle={() =>
          navigate({
            search: now => ({ ...now, event: isOpen ? undefined : event.id }),
            replace: true,
            resetScroll: false,
          })
        }
      />
      {isOpen && <EventDetails event={event} />}
    </Box>
  );
}

type LineProps = { event: Event; isOpen: boolean; label: string; note?: ReactNode; onToggle: () => void };

/** Icon, sentence and time of an event. The whole line is the button that opens it, except the links in it. */
export function EventLine({ event, isOpen, label, note, onToggle }: LineProps) {
  const { icon: Icon, tone } = eventStyle(event.kind);
  return (
    <div className={classes.line}>
      <Icon size={16} stroke={1.9} aria-hidden className={classes.icon} color={`var(--berth-${tone})`} />
      <EventSentence event={event} />
      {note && <span className={classes.note}>{note}</span>}
      <Text span size="sm" c="dimmed" className={classes.when}>
        <RelativeTime at={event.occurredAt} />
      </Text>
      <ActionIcon
        variant="transparent"
        color="gray"
        size="sm"
        className={classes.toggle}
        aria-expanded={isOpen}
        aria-label={label}
        onClick={onToggle}
      >
        <IconChevronRight size={16} aria-hidden className={isOpen ? classes.opened : undefined} />
      </ActionIcon>
    </div>
  );
}
