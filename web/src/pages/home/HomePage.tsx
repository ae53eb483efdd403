import { Alert, Button, Stack } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { deployedQuery } from "@/data/deployed";
import { useMe, useOrg, usePermission, usePermissionSomewhere } from "@/data/me";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { AttentionCard } from "./AttentionCard";
import { PipelineCard } from "./PipelineCard";

const SetupSteps = lazy(() =>
  import("@/ui/setup/SetupSteps").then(module => ({ default: module.SetupSteps })),
);

/** Overview: what is deployed to each stage, who holds which environment, and what needs the user's attention. */
export function HomePage() {
  const org = useOrg();
  const me = useMe();
  const mayRead = usePermissionSomewhere("deployments:read");
  const maySetUp = usePermission("repositories:read");
  const deployed = useInfiniteQuery({ ...deployedQuery(org), enabled: mayRead });
  const pipelines = deployed.data?.pages.flatMap(page => page.data) ?? [];
  const isEmpty = deployed.isSuccess && pipelines.length === 0;
  return (
    <Page title="Home" lead={isEmpty ? undefined : "What is deployed, and who holds which environment"}>
      {me.user.passwordIsGenerated && !me.demo && (
        <Alert icon={<IconKey />} color="lantern" radius="lg" title="You are using a temporary password">
          <Link to="/profile">Change your password</Link>
        </Alert>
      )}
      {mayRead && deployed.isPending && <LoadingRows rows={3} height={150} />}
      {deployed.isError && pipelines.length === 0 && (
        <ProblemPanel error={deployed.error} retry={() => deployed.refetch()} />
      )}
      {isEmpty && maySetUp && (
        <Suspense fallback={<LoadingRows />}>
          <SetupSteps />
        </Suspense>
      )}
      {(!mayRead || (isEmpty && !maySetUp)) && (
        <EmptyState icon={IconKey} title="No access to pipelines yet">
          Ask an admin of this organization for a role on the pipelines or environments you work with.
        </EmptyState>
      )}
      {pipelines.length > 0 && <AttentionCard pipelines={pipelines} />}
      <Stack>
        {pipelines.map(each => (
          <PipelineCard key={each.pipelineId} pipeline={each} />
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
