import { Button, Group, SegmentedControl, Stack, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconAnchor, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAccess, useOrg } from "@/data/me";
import { pipelinePagesQuery } from "@/data/pipelines";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { ENVIRONMENT_YAML } from "@/ui/snippets";
import { findEnvironments } from "./findEnvironments";
import { type EnvironmentFilter, PipelineEnvironments } from "./PipelineEnvironments";

const SEARCH_DELAY_MS = 200;
const FILTERS = [
  { value: "all", label: "All" },
  { value: "free", label: "Free" },
  { value: "mine", label: "Held by you" },
];

/** All shared environments with their sessions, queues and actions. */
export function EnvironmentsPage() {
  const org = useOrg();
  const { search, show = "all" } = useSearch({ from: "/o/$org/environments" });
  const navigate = useNavigate({ from: "/o/$org/environments" });
  // The server searches pipelines by name; environments are searched in the pipelines that are loaded.
  const pipelines = useInfiniteQuery(pipelinePagesQuery(org, search ? { search } : {}));
  const everything = useInfiniteQuery(pipelinePagesQuery(org));
  const loaded = [pipelines, everything].flatMap(query => query.data?.pages.flatMap(page => page.data) ?? []);
  const access = useAccess();
  const found = findEnvironments([...new Map(loaded.map(each => [each.id, each])).values()], access, search);
  const applySearch = useDebouncedCallback(
    (text: string) => navigate({ search: now => ({ ...now, search: text || undefined }), replace: true }),
    SEARCH_DELAY_MS,
  );
  return (
    <Page
      title="Shared environments"
      lead="Claim an environment, deploy to it and release it when you are done"
    >
      <Group>
        <TextInput
          leftSection={<IconSearch size={16} />}
          placeholder="Search environments and pipelines"
          aria-label="Search environments and pipelines"
          defaultValue={search}
          onChange={event => applySearch(event.currentTarget.value)}
          data-page-search
          style={{ flex: "1 1 14rem" }}
        />
        <SegmentedControl
          data={FILTERS}
          value={show}
          aria-label="Filter"
          onChange={value =>
            navigate({
              search: now => ({ ...now, show: value === "all" ? undefined : value }),
              replace: true,
            })
          }
        />
      </Group>
      {pipelines.isPending && <LoadingRows rows={2} height={180} />}
      {pipelines.isError && found.length === 0 && (
        <ProblemPanel error={pipelines.error} retry={() => pipelines.refetch()} />
      )}
      {pipelines.isSuccess && found.length === 0 && !pipelines.hasNextPage && (
        <NoEnvironments isSearch={Boolean(search)} />
      )}
      <Stack gap="xl">
        {found.map(({ pipeline, envNames }) => (
          <PipelineEnvironments
            key={pipeline.id}
            pipeline={pipeline}
            envNames={envNames}
            show={show as EnvironmentFilter}
          />
        ))}
        {pipelines.hasNextPage && (
          <Button
            variant="default"
            onClick={() => pipelines.fetchNextPage()}
            loading={pipelines.isFetchingNextPage}
          >
            Load more
          </Button>
        )}
      </Stack>
    </Page>
  );
}

function NoEnvironments({ isSearch }: { isSearch: boolean }) {
  if (isSearch) {
    return (
      <EmptyState icon={IconAnchor} title="No matching environments">
        Try another name, or clear the search.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={IconAnchor} title="No shared environments yet">
      <Stack gap="sm" w="100%">
        <div>Add one to a pipeline definition and push it:</div>
        <Snippet label="Example environment" text={ENVIRONMENT_YAML} />
      </Stack>
    </EmptyState>
  );
}
