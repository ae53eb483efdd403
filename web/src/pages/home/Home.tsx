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

/** Overview: what is deployed to each stage, who holds which environment, and what needs the user's attention. */
export function Home() {
  const org = useOrg();
  const me = useMe();
  const deployed = useInfiniteQuery(deployedPages(org));
  const pipelines = deployed.data?.pages.flatMap(page => page.data) ?? [];
  const isEmpty = deployed.isSuccess && pipelines.length === 0;
  return (
    <Page title="Home" lead={isEmpty ? undefined : "What is deployed, and who holds which environment"}>
      {me.user.passwordIsGenerated && !me.demo && (
        <Alert icon={<IconKey />} color="lantern" radius="lg" title="You are using a temporary password">
          <Link to="/profile">Change your password</Link>
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
          Load more
        </Button>
      )}
    </Page>
  );
}
