import { ActionIcon, Group, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp, IconSearch, IconX } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { parseRange } from "./range";

const TYPED_MS = 300;
const Q_CHARS_MAX = 200;

type Props = {
  q: string;
  found: number | null;
  isComplete: boolean;
  current: number | null;
  onSearch: (q: string) => void;
  onLine: (text: string) => void;
  onStep: (by: 1 | -1) => void;
};

/** Search field; also accepts a line such as `L120`. Enter goes to the next match, Shift+Enter to the previous one. */
export function LogSearch(props: Props) {
  const [typed, setTyped] = useState(props.q);
  useEffect(() => setTyped(props.q), [props.q]);
  const later = useDebouncedCallback(props.onSearch, TYPED_MS);
  const isLine = /^L\d/.test(typed) && parseRange(typed) !== null;
  return (
    <Group gap={6} wrap="nowrap" style={{ flex: "1 1 16rem" }} maw={460}>
      <TextInput
        data-page-search
        size="xs"
        style={{ flex: 1 }}
        aria-label="Search the log or go to a line, such as L120"
        placeholder="Search log or go to line (L120)"
        maxLength={Q_CHARS_MAX}
        leftSection={<IconSearch size={14} />}
        rightSection={
          typed && (
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              aria-label="Clear search"
              onClick={() => {
                setTyped("");
                props.onSearch("");
              }}
            >
              <IconX size={14} />
            </ActionIcon>
          )
        }
        value={typed}
        onChange={event => {
          const text = event.currentTarget.value;
          setTyped(text);
          if (!/^L\d*(-L?\d*)?$/.test(text)) later(text);
        }}
        onKeyDown={event => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          if (isLine) props.onLine(typed);
          else if (typed !== props.q) props.onSearch(typed);
          else props.onStep(event.shiftKey ? -1 : 1);
        }}
      />
      {props.q && <MatchCount {...props} />}
    </Group>
  );
}

function MatchCount({ found, isComplete, current, onStep }: Props) {
  const label =
    found === null
      ? "Searching…"
      : found === 0
        ? "No matches"
        : `${current === null ? "" : `${current + 1} of `}${found.toLocaleString()}${isComplete ? "" : "+"}`;
  return (
    <Group gap={2} wrap="nowrap">
      <Text size="xs" c="dimmed" className="tabular" role="status" style={{ whiteSpace: "nowrap" }}>
        {label}
      </Text>
      <ActionIcon
        title="Previous match (Shift+Enter)"
        size="sm"
        variant="subtle"
        color="gray"
        disabled={!found}
        aria-label="Previous match"
        onClick={() => onStep(-1)}
      >
        <IconChevronUp size={16} />
      </ActionIcon>
      <ActionIcon
        title="Next match (Enter)"
        size="sm"
        variant="subtle"
        color="gray"
        disabled={!found}
        aria-label="Next match"
        onClick={() => onStep(1)}
      >
        <IconChevronDown size={16} />
      </ActionIcon>
    </Group>
  );
}
