import { Group, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { EVENT_KINDS } from "@/api/kinds.gen";
import { useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import { formatEventKind } from "@/ui/events/eventKind";
import { PipelineSelect } from "@/ui/fields/PipelineSelect";

const ROUTE = "/o/$org/events";

type Search = { [Name in "kind" | "actor" | "pipeline" | "from" | "to"]?: string };

/** Fields for the filters that are rarely used. */
export function AuditLogFilters({ set }: { set: (change: Search) => void }) {
  const org = useOrg();
  const search = useSearch({ from: ROUTE });
  const members = useQuery(membersQuery(org)).data?.data ?? [];
  const day = (value: string | undefined) => value?.slice(0, 10) ?? "";
  return (
    <Group align="flex-end" gap="sm">
      <NativeSelect
        label="Event"
        data={[
          { value: "", label: "All events" },
          ...EVENT_KINDS.map(kind => ({ value: kind, label: formatEventKind(kind) })),
        ]}
        value={search.kind ?? ""}
        onChange={event => set({ kind: event.currentTarget.value })}
      />
      <NativeSelect
        label="Actor"
        data={[
          { value: "", label: "All actors" },
          ...members.map(each => ({ value: each.id, label: each.name })),
        ]}
        value={search.actor ?? ""}
        onChange={event => set({ actor: event.currentTarget.value })}
      />
      <PipelineSelect
        label="Pipeline"
        by="id"
        none="All pipelines"
        value={search.pipeline}
        onChange={pipeline => set({ pipeline })}
      />
      <TextInput
        label="From"
        type="date"
        value={day(search.from)}
        onChange={event =>
          set({ from: event.currentTarget.value && `${event.currentTarget.value}T00:00:00.000Z` })
        }
      />
      <TextInput
        label="To"
        type="date"
        value={day(search.to)}
        onChange={event =>
          set({ to: event.currentTarget.value && `${event.currentTarget.value}T23:59:59.999Z` })
        }
      />
    </Group>
  );
}
