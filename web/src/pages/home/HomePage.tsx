import { ActionIcon, Alert, Anchor, Button, Group, TextInput } from "@mantine/core";
import { IconKey, IconLayoutList, IconList, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { lazy, Suspense, useDeferredValue, useEffect, useState } from "react";
import type { Deployed } from "@/api/types";
import { deployedQuery } from "@/data/deployed";
import { useMe, useOrg, usePermission, usePermissionSomewhere } from "@/data/me";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { AttentionSection } from "./AttentionSection";
import { type Density, loadDensity, saveDensity } from "./density";
import { EnvironmentTable } from "./EnvironmentTable";
import { FailingSection } from "./FailingSection";
import { filterDeployed } from "./filterDeployed";
import classes from "./home.module.css";
import { OpenDialogProvider } from "./OpenDialog";
import { PipelineTable } from "./PipelineTable";

const SetupSteps = lazy(() =>
  import("@/ui/setup/SetupSteps").then(module => ({ default: module.SetupSteps })),
);

/** More pipelines are loaded on request. */
const LOADED_PIPELINES_MAX = 1_000;
/** From this number of pipelines, rows are dense unless the user chose otherwise. */
const DENSE_FROM = 9;
/** From this number of rows, there are links to the tables. */
const LINKS_FROM = 20;
/** From this number of rows, there is a filter. */
const FILTER_FROM = 6;

/** What needs the user, what is failing, what is deployed where, and who holds which environment. */
export function HomePage() {
  const org = useOrg();
  const me = useMe();
  const mayRead = usePermissionSomewhere("deployments:read");
  const maySetUp = usePermission("repositories:read");
  const deployed = useInfiniteQuery({ ...deployedQuery(org), enabled: mayRead });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = deployed;
  const pipelines = deployed.data?.pages.flatMap(page => page.data) ?? [];
  const mayLoadMore = hasNextPage && pipelines.length < LOADED_PIPELINES_MAX;
  useEffect(() => {
    if (mayLoadMore && !isFetchingNextPage) fetchNextPage();
  }, [mayLoadMore, isFetchingNextPage, fetchNextPage]);

  const [chosen, setChosen] = useState(loadDensity);
  const density = chosen ?? (pipelines.length >= DENSE_FROM ? "dense" : "comfortable");
  const [typed, setTyped] = useState("");
  const filter = useDeferredValue(typed);
  const shown = filterDeployed(pipelines, filter);
  const isEmpty = deployed.isSuccess && pipelines.length === 0;
  const rows = pipelines.reduce((sum, each) => sum + 1 + each.environments.length, 0);
  return (
    <Page
      title="Home"
      lead={rows >= LINKS_FROM && <SectionLinks pipelines={pipelines} />}
      actions={
        rows >= FILTER_FROM && (
          <>
            <TextInput
              className={classes.filter}
              size="xs"
              placeholder="Filter"
              aria-label="Filter pipelines and environments"
              leftSection={<IconSearch size={14} />}
              value={typed}
              onChange={event => setTyped(event.currentTarget.value)}
              data-page-search
            />
            <DensityButton
              density={density}
              onChange={next => {
                saveDensity(next);
                setChosen(next);
              }}
            />
          </>
        )
      }
    >
      {me.user.passwordIsGenerated && !me.demo && (
        <Alert icon={<IconKey />} color="lantern" title="You are using a temporary password">
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
      {pipelines.length > 0 && (
        <OpenDialogProvider>
          <AttentionSection pipelines={pipelines} />
          <FailingSection pipelines={pipelines} />
          <PipelineTable pipelines={shown.pipelines} density={density} />
          <EnvironmentTable rows={shown.environments} density={density} />
        </OpenDialogProvider>
      )}
      {hasNextPage && !mayLoadMore && (
        <Button variant="default" onClick={() => fetchNextPage()} loading={isFetchingNextPage}>
          Load more
        </Button>
      )}
    </Page>
  );
}

/** Links to the tables, which are out of sight in a large organization. */
function SectionLinks({ pipelines }: { pipelines: Deployed[] }) {
  const environments = pipelines.flatMap(each => each.environments);
  const held = environments.filter(each => each.holder).length;
  return (
    <Group gap="md">
      <Anchor href="#pipelines">{pipelines.length} pipelines</Anchor>
      {environments.length > 0 && (
        <Anchor href="#environments">
          {environments.length} environments, {held} held
        </Anchor>
      )}
    </Group>
  );
}

type DensityProps = { density: Density; onChange: (density: Density) => void };

function DensityButton({ density, onChange }: DensityProps) {
  const isDense = density === "dense";
  const label = isDense ? "Comfortable rows" : "Dense rows";
  return (
    <ActionIcon
      className={classes.density}
      variant="default"
      size={30}
      aria-label={label}
      title={label}
      onClick={() => onChange(isDense ? "comfortable" : "dense")}
    >
      {isDense ? <IconLayoutList size={16} /> : <IconList size={16} />}
    </ActionIcon>
  );
}
