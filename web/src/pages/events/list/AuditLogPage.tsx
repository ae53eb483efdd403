import { Alert, Button, Card, Text } from "@mantine/core";
import { IconActivity, IconDownload, IconShieldCheck, IconShieldX } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import type { Verification } from "@/api/types";
import { eventsQuery, exportUrl, useVerifyAuditLog } from "@/data/events";
import { useOrg, usePermission } from "@/data/me";
import { EmptyState } from "@/ui/EmptyState";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";
import { EventGroupRow } from "./EventGroupRow";
import { EventRow } from "./EventRow";
import { FilterChips } from "./FilterChips";
import { groupEvents } from "./groups";

/** The audit log, newest first, updated live. */
export function AuditLogPage() {
  const org = useOrg();
  const { event: _, flat, ...filter } = useSearch({ from: "/o/$org/events" });
  const events = useInfiniteQuery(eventsQuery(org, filter));
  const all = events.data?.pages.flatMap(page => page.data) ?? [];
  const isGrouped = flat === undefined && filter.deployment === undefined;
  const groups = isGrouped
    ? groupEvents(all)
    : all.map(each => ({ id: each.id, head: each, events: [each] }));
  const verify = useVerifyAuditLog(org);
  const mayReadAll = usePermission("events:read");
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <Page
      title="Audit log"
      lead={
        mayReadAll
          ? "All events in this organization, newest first"
          : "Events of the resources you have access to, newest first"
      }
      actions={
        mayReadAll && (
          <>
            <Button
              variant="default"
              leftSection={<IconShieldCheck size={16} />}
              loading={verify.isPending}
              onClick={() => verify.mutate(undefined, { onError: toast.problem })}
            >
              Verify
            </Button>
            <Button
              component="a"
              href={exportUrl(org)}
              download
              variant="default"
              leftSection={<IconDownload size={16} />}
            >
              Export
            </Button>
          </>
        )
      }
    >
      {verify.data && <VerificationAlert of={verify.data} />}
      <FilterChips />
      {events.isPending && <LoadingRows rows={6} />}
      {events.isError && all.length === 0 && (
        <ProblemPanel error={events.error} retry={() => events.refetch()} />
      )}
      {events.isSuccess && all.length === 0 && (
        <EmptyState icon={IconActivity} title={isFiltered ? "No matching events" : "No events yet"}>
          {isFiltered
            ? "Remove a filter to see more."
            : "Every change in this organization is recorded here."}
        </EmptyState>
      )}
      {all.length > 0 && (
        <Card padding={0} component="ol" m={0} style={{ listStyle: "none" }} aria-label="Events">
          {groups.map(group =>
            group.events.length > 1 ? (
              <EventGroupRow key={group.id} {...group} />
            ) : (
              <EventRow key={group.id} event={group.head} />
            ),
          )}
        </Card>
      )}
      {events.hasNextPage && (
        <Button variant="default" onClick={() => events.fetchNextPage()} loading={events.isFetchingNextPage}>
          Load more
        </Button>
      )}
    </Page>
  );
}

/** The outcome of a verification. */
function VerificationAlert({ of: data }: { of: Verification }) {
  return (
    <Alert
      role="status"
      color={data.valid ? "kelp" : "buoy"}
      icon={data.valid ? <IconShieldCheck /> : <IconShieldX />}
      title={data.valid ? "Audit log verified" : "Audit log has been tampered with"}
    >
      <Text size="sm">
        {data.checked} events checked
        {data.firstSequence > 1 && `, starting at #${data.firstSequence} (older ones were removed)`}.{" "}
        {data.firstProblem
          ? `Problem at #${data.firstProblem.sequence}: ${data.firstProblem.detail}`
          : `The newest is #${data.head.sequence}.`}
      </Text>
    </Alert>
  );
}
