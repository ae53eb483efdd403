import { Alert, Button, Stack } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { deployedPages } from "@/data/deployed";
import { useMe, useOrg } from "@/data/me";
import { FirstSteps } from "@/ui/first-steps/FirstSteps";
import { Link } from "@/ui/Link";
import { Loading } from "@/ui/Loading";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/Problem";
import { ForYou } from "./ForYou";
import { PipelineRow } from "./PipelineRow";

/** What is where, who holds what, and what waits for the reader. */
export function Home() {
  const org = useOrg();
  const me = useMe();
  const deployed = useInfiniteQuery(deployedPages(org));
  const pipelines = deployed.data?.pages.flatMap(page => page.data) ?? [];
  const isEmpty = deployed.isSuccess && pipelines.length === 0;
  return (
    <Page title="Home" lead={isEmpty ? undefined : "What is where, and who holds what."}>
      {me.user.passwordIsGenerated && !me.demo && (
        <Alert
          icon={<IconKey />}
          color="lantern"
          radius="lg"
          title="You still use the password you were given"
        >
          <Link to="/profile">Choose one of your own</Link>; it takes a minute.
        </Alert>
      )}
      {deployed.isPending && <Loading rows={3} height={150} />}
      {deployed.isError && pipelines.length === 0 && (
        <ProblemPanel error={deployed.error} retry={() => deployed.refetch()} />
      )}
      {isEmpty && <FirstSteps />}
      {pipelines.length > 0 && <ForYou pipelines={pipelines} />}
      <Stack>
        {pipelines.map(each => (
          <PipelineRow key={each.pipelineId} pipeline={each} />
        ))}
      </Stack>
      {deployed.hasNextPage && (
        <Button
          variant="default"
          onClick={() => deployed.fetchNextPage()}
          loading={deployed.isFetchingNextPage}
        >
          More pipelines
        </Button>
      )}
    </Page>
  );
}
