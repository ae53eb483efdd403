import { Select, type SelectProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { useOrg } from "@/data/me";
import { pipelineQuery, pipelinesQuery } from "@/data/pipelines";

const TYPED_MS = 200;

type Props = Omit<SelectProps, "data" | "value" | "onChange"> & {
  /** Whether values are pipeline IDs or slugs. */
  by: "id" | "slug";
  /** Label for no selection. */
  none: string;
  value: string | undefined;
  onChange: (value: string, pipeline: Pipeline | undefined) => void;
};

/** Selects a pipeline; the server searches for the typed text. */
export function PipelineSelect({ by, none, value, onChange, ...rest }: Props) {
  const org = useOrg();
  const [typed, setTyped] = useState("");
  const chosen = useQuery({ ...pipelineQuery(org, value ?? ""), enabled: Boolean(value) }).data;
  // The name of the selected pipeline is not a search text.
  const wanted = typed === none || typed === chosen?.name ? "" : typed;
  const [search] = useDebouncedValue(wanted, TYPED_MS);
  const found = useQuery({
    ...pipelinesQuery(org, search ? { search } : {}),
    placeholderData: keepPreviousData,
  }).data;
  const listed = found?.data ?? [];
  const all = chosen && !listed.some(each => each.id === chosen.id) ? [chosen, ...listed] : listed;
  return (
    <Select
      searchable
      allowDeselect={false}
      data={[{ value: "", label: none }, ...all.map(each => ({ value: each[by], label: each.name }))]}
      filter={({ options }) => options}
      value={chosen ? chosen[by] : ""}
      searchValue={typed}
      onSearchChange={setTyped}
      onChange={picked =>
        onChange(
          picked ?? "",
          all.find(each => each[by] === picked),
        )
      }
      onFocus={event => event.currentTarget.select()}
      nothingFoundMessage="No matching pipelines"
      maxDropdownHeight={320}
      {...rest}
    />
  );
}
