import { Checkbox, NativeSelect, SimpleGrid, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { EVENT_KINDS } from "@/api/kinds.gen";
import type { Webhook } from "@/api/types";

/** What people usually want to hear of; every other kind can be added. */
const USUAL = [
  { value: "deployment_succeeded", label: "Deployment succeeded" },
  { value: "deployment_failed", label: "Deployment failed" },
  { value: "deployment_rolled_back", label: "Rolled back" },
  { value: "approval_requested", label: "Approval asked for" },
  { value: "session_claimed", label: "Environment claimed" },
  { value: "session_overridden", label: "Environment taken over" },
  { value: "session_released", label: "Environment released" },
  { value: "session_expiring", label: "Hold ends soon" },
];

export function formatKind(kind: string): string {
  if (kind === "*") return "everything";
  return USUAL.find(each => each.value === kind)?.label ?? kind.replaceAll("_", " ");
}

type Chosen = Webhook["kinds"];
type Props = { value: Chosen; error?: ReactNode; onChange: (kinds: Chosen) => void };

/** Selects kinds of events: the usual ones, and any other that was added. */
export function Kinds({ value, error, onChange }: Props) {
  const others = value.filter(kind => !USUAL.some(each => each.value === kind));
  const shown = [...USUAL, ...others.map(kind => ({ value: kind, label: formatKind(kind) }))];
  const rest = (["*", ...EVENT_KINDS] as const).filter(kind => !shown.some(each => each.value === kind));
  return (
    <Stack gap="xs">
      <Checkbox.Group
        label="Told of"
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
        aria-label="Another kind"
        size="xs"
        data={[
          { value: "", label: "Another kind…" },
          ...rest.map(kind => ({ value: kind, label: formatKind(kind) })),
        ]}
        value=""
        onChange={event => onChange([...value, ...rest.filter(kind => kind === event.currentTarget.value)])}
      />
    </Stack>
  );
}
