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

/** Everything that happened, newest first, as it happens. */
export function Events() {
  const org = useOrg();
  const { event: _, ...filter } = useSearch({ from: "/o/$org/events" });
  const events = useInfiniteQuery(eventPages(org, filter));
  const all = events.data?.pages.flatMap(page => page.data) ?? [];
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <Page
      title="Events"
      lead="Everything that happened, newest first. New ones appear by themselves."
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
        <Empty icon={IconActivity} title="Nothing like that has happened">
          {isFiltered ? "Loosen the filters." : "The first event comes with the first change."}
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
          Earlier
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
        Check the history
      </Button>
      {data && (
        <Alert
          w="100%"
          role="status"
          color={data.valid ? "kelp" : "buoy"}
          icon={data.valid ? <IconShieldCheck /> : <IconShieldX />}
          title={data.valid ? "The history is whole" : "The history was touched"}
        >
          <Text size="sm">
            {data.checked} events were checked
            {data.firstSequence > 1 && ` from no. ${data.firstSequence} on; older ones were removed`}.{" "}
            {data.firstProblem
              ? `At ${data.firstProblem.sequence}: ${data.firstProblem.detail}`
              : `The newest is no. ${data.head.sequence}.`}
          </Text>
        </Alert>
      )}
    </>
  );
}
