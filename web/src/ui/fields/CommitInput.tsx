import { Autocomplete, Checkbox, Stack, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { findDoubt, type RefDoubt, useKnownRefs } from "@/data/knownRefs";

const SUGGESTED_MAX = 12;
const COMMIT_CHARS_MAX = 255;

export type CheckedCommit = {
  /** Whether there is no doubt about the name, or the user has confirmed it. */
  isChecked: boolean;
  /** Props of the field. */
  field: { doubt: RefDoubt | null; suggestions: { value: string; detail: string }[]; confirm: ConfirmProps };
};

type ConfirmProps = { isConfirmed: boolean; onChange: (isConfirmed: boolean) => void };

/** Checks a commit, branch or tag before it is used: a doubtful name needs a confirmation. */
export function useCheckedCommit(org: string, pipelineId: string, name: string): CheckedCommit {
  const known = useKnownRefs(org, pipelineId);
  const [confirmed, setConfirmed] = useState<string | null>(null);
  const doubt = findDoubt(name, known);
  const isConfirmed = confirmed === name;
  return {
    isChecked: doubt === null || isConfirmed,
    field: {
      doubt,
      suggestions: known.refs.map(each => ({ value: each.name, detail: each.detail })),
      confirm: { isConfirmed, onChange: is => setConfirmed(is ? name : null) },
    },
  };
}

type Props = {
  field: CheckedCommit["field"];
  value?: string;
  onChange: (value: string) => void;
  label?: string;
  description?: ReactNode;
  placeholder?: string;
  required?: boolean;
  "data-autofocus"?: boolean;
};

/** Commit, branch or tag, with suggestions. */
export function CommitInput({ field, value = "", onChange, ...props }: Props) {
  const { doubt, suggestions, confirm } = field;
  const typed = value.trim().toLowerCase();
  const hasMatch = suggestions.some(each => each.value.toLowerCase().includes(typed));
  return (
    <Stack gap="xs">
      <Autocomplete
        label="Commit, branch or tag"
        placeholder="main"
        maxLength={COMMIT_CHARS_MAX}
        limit={SUGGESTED_MAX}
        spellCheck={false}
        // An open list without entries would take the Escape key from the dialog.
        openOnFocus={false}
        dropdownOpened={hasMatch ? undefined : false}
        {...props}
        data={suggestions.map(each => each.value)}
        value={value}
        onChange={onChange}
        renderOption={({ option }) => (
          <span style={{ minWidth: 0 }}>
            <span className="commit">{option.value}</span>{" "}
            <Text span size="xs" c="dimmed">
              {suggestions.find(each => each.value === option.value)?.detail}
            </Text>
          </span>
        )}
      />
      {doubt && (
        <div role="status">
          <Text size="sm" c="var(--berth-warn)" className="wrap">
            {doubt.isMissing && `“${value.trim()}” was not found in the repository before. `}
            {doubt.similar && (
              <>
                Did you mean{" "}
                <button type="button" className="text-button" onClick={() => onChange(doubt.similar ?? "")}>
                  {doubt.similar}
                </button>
                ?
              </>
            )}
          </Text>
          <Checkbox
            mt={4}
            label={`“${value.trim()}” is correct`}
            checked={confirm.isConfirmed}
            onChange={event => confirm.onChange(event.currentTarget.checked)}
          />
        </div>
      )}
    </Stack>
  );
}
