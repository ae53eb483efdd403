import { Badge, Box } from "@mantine/core";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { EventLine, EventRow } from "./EventRow";
import classes from "./events.module.css";
import type { EventGroup } from "./groups";

/** The events of a deployment in one row; opened, each of them. */
export function EventGroupRow({ head, events }: EventGroup) {
  const linked = useSearch({ from: "/o/$org/events" }).event;
  const [isOpen, setOpen] = useState(() => events.some(each => each.id === linked));
  return (
    <Box component="li" className={classes.row}>
      <EventLine
        event={head}
        isOpen={isOpen}
        label={`${events.length} events of “${head.summary}”`}
        note={
          <Badge color="gray" size="sm">
            {events.length} events
          </Badge>
        }
        onToggle={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <ol className={classes.members} aria-label={`Events of “${head.summary}”`}>
          {events.map(each => (
            <EventRow key={each.id} event={each} />
          ))}
        </ol>
      )}
    </Box>
  );
}
