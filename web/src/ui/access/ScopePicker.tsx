import { Autocomplete, NativeSelect, Stack } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useOrg } from "@/data/me";
import { type AccessScope, formatScope, parseScope } from "@/data/permissions";
import { pipelineQuery, pipelinesQuery } from "@/data/pipelines";

const TYPED_MS = 200;
const NAME_CHARS_MAX = 64;

/** A scope while it is entered. */
export type ScopeDraft = { kind: AccessScope["kind"]; pipeline: string; name: string };

export const EMPTY_SCOPE: ScopeDraft = { kind: "environment", pipeline: "", name: "" };

/** Returns the text of an entered scope, or null if it is incomplete or invalid. */
export function toScopeText({ kind, pipeline, name }: ScopeDraft): string | null {
  const names = { pipeline: pipeline.trim(), name: name.trim() };
  const text = formatScope(
    kind === "org" ? { kind } : kind === "pipeline" ? { kind, pipeline: names.pipeline } : { kind, ...names },
  );
  return parseScope(text) && text;
}

const KINDS = {
  scope: [
    { value: "org", label: "The whole organization" },
    { value: "pipeline", label: "Pipelines" },
    { value: "environment", label: "Environments of a pipeline" },
    { value: "stage", label: "Stages of a pipeline" },
  ],
  resource: [
    { value: "org", label: "The organization" },
    { value: "pipeline", label: "A pipeline" },
    { value: "environment", label: "An environment" },
    { value: "stage", label: "A stage" },
  ],
};

type Props = {
  label: string;
  value: ScopeDraft;
  onChange: (value: ScopeDraft) => void;
  /** Whether names may be patterns, as in a scope, or name one resource. */
  of: "scope" | "resource";
};

/** Selects a scope or a resource: kind, pipeline, and the name of an environment or stage. */
export function ScopePicker({ label, value, onChange, of }: Props) {
  const org = useOrg();
  const { kind, pipeline, name } = value;
  const [search] = useDebouncedValue(pipeline.replace(/\*$/, "").trim(), TYPED_MS);
  const found = useQuery({
    ...pipelinesQuery(org, search ? { search } : {}),
    enabled: kind !== "org",
    placeholderData: keepPreviousData,
  }).data?.data;
  const isKnown = found?.some(each => each.slug === pipeline) ?? false;
  const chosen = useQuery({ ...pipelineQuery(org, pipeline), enabled: isKnown }).data;
  const names = kind === "stage" ? chosen?.stages.map(each => each.name) : chosen?.environments;
  const pattern = of === "scope" ? "A name, or its beginning followed by *" : undefined;
  const nameLabel = kind === "stage" ? "Stage" : "Environment";
  return (
    <Stack gap="sm">
      <NativeSelect
        label={label}
        data={KINDS[of]}
        value={kind}
        onChange={event =>
          onChange({ ...value, kind: event.currentTarget.value as ScopeDraft["kind"], name: "" })
        }
      />
      {kind !== "org" && (
        <Autocomplete
          label="Pipeline"
          description={pattern}
          placeholder="shop"
          data={(found ?? []).map(each => each.slug)}
          value={pipeline}
          maxLength={NAME_CHARS_MAX}
          spellCheck={false}
          onChange={next => onChange({ ...value, pipeline: next })}
        />
      )}
      {(kind === "environment" || kind === "stage") && (
        <Autocomplete
          label={nameLabel}
          description={pattern}
          placeholder={kind === "stage" ? "production" : of === "scope" ? "qa-*" : "qa-1"}
          data={names ?? []}
          value={name}
          maxLength={NAME_CHARS_MAX}
          spellCheck={false}
          onChange={next => onChange({ ...value, name: next })}
        />
      )}
    </Stack>
  );
}
