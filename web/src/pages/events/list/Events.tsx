import { Alert, Button, Card, Text } from "@mantine/core";
import { IconActivity, IconDownload, IconShieldCheck, IconShieldX } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { eventPages, exportAddress, useVerify } from "@/data/events";
import { useOrg } from "@/data/me";
import { Empty } from "@/ui/Empty";
import { Loading } from "@/ui/Loading";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/Problem";
import { toast } from "@/ui/toast";
import { EventRow } from "./EventRow";
import { Filters } from "./Filters";

/** The audit log, newest first, updated live. */
export function Events() {
  const org = useOrg();
  const { event: _, ...filter } = useSearch({ from: "/o/$org/events" });
  const events = useInfiniteQuery(eventPages(org, filter));
  const all = events.data?.pages.flatMap(page => page.data) ?? [];
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <Page
      title="Audit log"
      lead="All events in this organization, newest first"
      actions={
        <>
          <Verify />
          <Button
            component="a"
            href={exportAddress(org)}
            download
            variant="default"
            leftSection={<IconDownload size={16} />}
          >
            Export
          </Button>
        </>
      }
    >
      <Filters />
      {events.isPending && <Loading rows={6} />}
      {events.isError && all.length === 0 && (
        <ProblemPanel error={events.error} retry={() => events.refetch()} />
      )}
      {events.isSuccess && all.length === 0 && (
        <Empty icon={IconActivity} title={isFiltered ? "No matching events" : "No events yet"}>
          {isFiltered
            ? "Change or clear the filters."
            : "Every change in this organization is recorded here."}
        </Empty>
      )}
      {all.length > 0 && (
        <Card padding={0} component="ol" m={0} style={{ listStyle: "none" }} aria-label="Events">
          {all.map(each => (
            <EventRow key={each.id} event={each} />
          ))}
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

function Verify() {
  const verify = useVerify(useOrg());
  const { data } = verify;
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconShieldCheck size={16} />}
        loading={verify.isPending}
        onClick={() => verify.mutate(undefined, { onError: toast.problem })}
      >
        Verify
      </Button>
      {data && (
        <Alert
          w="100%"
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
      )}
    </>
  );
}
