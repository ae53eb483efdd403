import { Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconAnchor, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useOrg } from "@/data/me";
import { pipelinesQuery } from "@/data/pipelines";
import { Snippet } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { ENVIRONMENT_YAML } from "../welcome/snippets";
import { PipelineBerths, type Show } from "./PipelineBerths";

const SEARCH_DELAY_MS = 200;
const SHOWS = [
  { value: "all", label: "All" },
  { value: "free", label: "Free" },
  { value: "mine", label: "Held by you" },
];

/** Every shared environment: who holds it, until when and why, who waits; and what can be done about it. */
export function Board() {
  const org = useOrg();
  const { search, show = "all" } = useSearch({ from: "/o/$org/environments" });
  const navigate = useNavigate({ from: "/o/$org/environments" });
  const pipelines = useQuery(pipelinesQuery(org, search ? { search } : {}));
  const find = useDebouncedCallback(
    (text: string) => navigate({ search: now => ({ ...now, search: text || undefined }), replace: true }),
    SEARCH_DELAY_MS,
  );
  return (
    <Page title="Shared environments" lead="Claim one, use it, give it back. Changes show up by themselves.">
      <Group>
        <TextInput
          leftSection={<IconSearch size={16} />}
          placeholder="Find a pipeline"
          aria-label="Find a pipeline"
          defaultValue={search}
          onChange={event => find(event.currentTarget.value)}
          data-page-search
          style={{ flex: "1 1 14rem" }}
        />
        <SegmentedControl
          data={SHOWS}
          value={show}
          aria-label="Which environments to show"
          onChange={value =>
            navigate({
              search: now => ({ ...now, show: value === "all" ? undefined : value }),
              replace: true,
            })
          }
        />
      </Group>
      <Query of={pipelines}>
        {({ data, pagination }) => {
          const withEnvironments = data.filter(pipeline => pipeline.environments.length > 0);
          return withEnvironments.length === 0 ? (
            <NoEnvironments isSearch={Boolean(search)} />
          ) : (
            <Stack gap="xl">
              {withEnvironments.map(pipeline => (
                <PipelineBerths key={pipeline.id} pipeline={pipeline} show={show as Show} />
              ))}
              {pagination.hasMore && <Text c="dimmed">There are more pipelines. Find them by name.</Text>}
            </Stack>
          );
        }}
      </Query>
    </Page>
  );
}

function NoEnvironments({ isSearch }: { isSearch: boolean }) {
  if (isSearch) {
    return (
      <Empty icon={IconAnchor} title="No pipeline of that name has shared environments">
        Try a part of its name, or clear the search.
      </Empty>
    );
  }
  return (
    <Empty icon={IconAnchor} title="No shared environments yet">
      <Stack gap="sm" w="100%">
        <div>Declare one in a pipeline's definition; it appears here with the next sync.</div>
        <Snippet label="A shared environment" text={ENVIRONMENT_YAML} />
      </Stack>
    </Empty>
  );
}
