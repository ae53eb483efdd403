import { Box, Button, Code, Group, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { Event } from "@/api/types";
import { formatDateTime } from "@/format/time";
import { CopyIconButton } from "@/ui/Copy";
import classes from "./events.module.css";

/** Filters that an event offers, by the type of its subjects. */
const FILTERS = ["deployment", "environment", "pipeline"] as const;

/** Everything that is recorded of an event. */
export function EventDetails({ event }: { event: Event }) {
  const navigate = useNavigate({ from: "/o/$org/events" });
  const json = JSON.stringify(event, null, 2);
  const subjects = FILTERS.flatMap(type => {
    const found = event.subjects.find(each => each.type === type);
    return found ? [{ type, id: found.id }] : [];
  });
  const filters = [...(event.actor.id ? [{ type: "actor" as const, id: event.actor.id }] : []), ...subjects];
  return (
    <Box className={classes.details}>
      <Text size="sm" c="dimmed" className="wrap" mb={6}>
        #{event.sequence} · <code>{event.kind}</code> · {formatDateTime(event.occurredAt)}
        {event.requestId && (
          <>
            {" "}
            · request ID <code>{event.requestId}</code>
          </>
        )}
      </Text>
      <Group gap={6} mb="xs">
        {filters.map(({ type, id }) => (
          <Button
            key={type}
            size="compact-xs"
            radius="xl"
            variant="default"
            onClick={() => navigate({ search: now => ({ ...now, event: undefined, [type]: id }) })}
          >
            Only this {type}
          </Button>
        ))}
      </Group>
      <Box pos="relative">
        <Code block tabIndex={0} aria-label="Event data" style={{ overflowX: "auto" }}>
          {json}
        </Code>
        <Box pos="absolute" top={6} right={6}>
          <CopyIconButton value={json} label="Copy JSON" />
        </Box>
      </Box>
    </Box>
  );
}
