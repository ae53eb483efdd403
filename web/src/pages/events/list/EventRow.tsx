import { Box, Code, Group, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Event } from "@/api/types";
import { useOrg } from "@/data/me";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import classes from "./events.module.css";

const ROUTE = "/o/$org/events";

/** The summary of an event; expanded, all of its data. */
export function EventRow({ event }: { event: Event }) {
  const navigate = useNavigate({ from: ROUTE });
  const isOpen = useSearch({ from: ROUTE }).event === event.id;
  const toggle = () =>
    navigate({
      search: now => ({ ...now, event: isOpen ? undefined : event.id }),
      replace: true,
      resetScroll: false,
    });
  return (
    <Box component="li" className={classes.row}>
      <UnstyledButton onClick={toggle} aria-expanded={isOpen} className={classes.head}>
        <IconChevronRight size={16} aria-hidden className={isOpen ? classes.opened : undefined} />
        <Text span className={classes.summary}>
          {event.summary}
        </Text>
        <Text span size="sm" c="dimmed" className={classes.when}>
          <RelativeTime at={event.occurredAt} />
        </Text>
      </UnstyledButton>
      {isOpen && <EventDetails event={event} />}
    </Box>
  );
}

function EventDetails({ event }: { event: Event }) {
  const org = useOrg();
  const deployment = event.subjects.find(each => each.type === "deployment");
  return (
    <Box px="md" pb="md">
      <Group gap="md" mb="xs" fz="sm" c="dimmed">
        <span>
          #{event.sequence} · <code>{event.kind}</code>
        </span>
        {event.requestId && (
          <span>
            request ID <code>{event.requestId}</code>
          </span>
        )}
        {deployment && (
          <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId: deployment.id }} inherit>
            View deployment
          </Link>
        )}
      </Group>
      <Code block tabIndex={0} aria-label="Event data" style={{ overflowX: "auto" }}>
        {JSON.stringify({ subjects: event.subjects, data: event.data, hash: event.hash }, null, 2)}
      </Code>
    </Box>
  );
}
