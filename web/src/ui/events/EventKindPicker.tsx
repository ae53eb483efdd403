import { Checkbox, NativeSelect, SimpleGrid, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { EVENT_KINDS } from "@/api/kinds.gen";
import type { Webhook } from "@/api/types";
import { formatEventKind } from "./eventKind";

/** Common events, offered first. */
const COMMON_KINDS = [
  "deployment_succeeded",
  "deployment_failed",
  "deployment_rolled_back",
  "approval_requested",
  "session_claimed",
  "session_overridden",
  "session_released",
  "session_expiring",
].map(kind => ({ value: kind, label: formatEventKind(kind) }));

type Chosen = Webhook["kinds"];
type Props = { value: Chosen; error?: ReactNode; onChange: (kinds: Chosen) => void };

/** Selects events: common ones as checkboxes, others from a list. */
export function EventKindPicker({ value, error, onChange }: Props) {
  const others = value.filter(kind => !COMMON_KINDS.some(each => each.value === kind));
  const shown = [...COMMON_KINDS, ...others.map(kind => ({ value: kind, label: formatEventKind(kind) }))];
  const rest = (["*", ...EVENT_KINDS] as const).filter(kind => !shown.some(each => each.value === kind));
  return (
    <Stack gap="xs">
      <Checkbox.Group
        label="Events"
        value={value}
        error={error}
        onChange={kinds => onChange(kinds as Chosen)}
      >
        <SimpleGrid cols={{ base: 1, xs: 2 }} mt={6} spacing="xs">
          {shown.map(kind => (
            <Checkbox key={kind.value} {...kind} />
          ))}
        </SimpleGrid>
      </Checkbox.Group>
      <NativeSelect
        aria-label="More events"
        size="xs"
        data={[
          { value: "", label: "More events…" },
          ...rest.map(kind => ({ value: kind, label: formatEventKind(kind) })),
        ]}
        value=""
        onChange={event => onChange([...value, ...rest.filter(kind => kind === event.currentTarget.value)])}
      />
    </Stack>
  );
}
