import { Button, Group, SegmentedControl, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconRoute, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { useOrg } from "@/data/me";
import { type PipelineFilter, pipelinesQuery } from "@/data/pipelines";
import { EmptyState } from "@/ui/EmptyState";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { NoPipelines } from "./NoPipelines";
import { PipelineList, type PipelineListHandle } from "./PipelineList";

const TYPED_MS = 250;
const SEARCH_CHARS_MAX = 200;

/** All pipelines of the organization, with search. */
export function PipelinesPage() {
  const org = useOrg();
  const filter = useSearch({ from: "/o/$org/pipelines" });
  const navigate = useNavigate({ from: "/o/$org/pipelines" });
  const list = useRef<PipelineListHandle>(null);
  const [typed, setTyped] = useState(filter.search ?? "");
  const applyFilter = (change: PipelineFilter) => {
    const next = { ...filter, ...change };
    navigate({
      search: { search: next.search || undefined, status: next.status || undefined },
      replace: true,
      resetScroll: false,
    });
  };
  const later = useDebouncedCallback((search: string) => applyFilter({ search }), TYPED_MS);
  const first = useQuery(pipelinesQuery(org, filter));
  const isFiltered = filter.search !== undefined || filter.status !== undefined;
  const total = first.data?.pagination.total;
  return (
    <Page title="Pipelines" lead={formatPipelineCount(total, isFiltered)}>
      <Group gap="sm">
        <TextInput
          data-page-search
          style={{ flex: "1 1 16rem" }}
          aria-label="Search pipelines by name"
          placeholder="Search pipelines"
          maxLength={SEARCH_CHARS_MAX}
          leftSection={<IconSearch size={16} />}
          value={typed}
          onChange={event => {
            setTyped(event.currentTarget.value);
            later(event.currentTarget.value);
          }}
          onKeyDown={event => {
            if (event.key !== "ArrowDown") return;
            event.preventDefault();
            list.current?.focus(0);
          }}
        />
        <SegmentedControl
          aria-label="Status"
          value={filter.status ?? ""}
          onChange={status => applyFilter({ status })}
          data={[
            { value: "", label: "All" },
            { value: "active", label: "Active" },
            { value: "stopped", label: "Paused" },
          ]}
        />
      </Group>
      <QueryResult of={first}>
        {page => {
          if (page.data.length > 0) return <PipelineList ref={list} org={org} filter={filter} first={page} />;
          if (!isFiltered) return <NoPipelines org={org} />;
          return (
            <EmptyState icon={IconRoute} title="No matching pipelines">
              <Button
                variant="default"
                onClick={() => {
                  setTyped("");
                  applyFilter({ search: undefined, status: undefined });
                }}
              >
                Clear filters
              </Button>
            </EmptyState>
          );
        }}
      </QueryResult>
    </Page>
  );
}

function formatPipelineCount(total: number | null | undefined, isFiltered: boolean): string | undefined {
  if (total == null || total === 0) return undefined;
  const many = `${total.toLocaleString()} ${total === 1 ? "pipeline" : "pipelines"}`;
  return isFiltered ? `${many} found` : many;
}
