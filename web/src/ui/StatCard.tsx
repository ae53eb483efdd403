import { Card, Text } from "@mantine/core";
import type { ReactNode } from "react";

type Props = { label: string; value: ReactNode; note?: ReactNode };

/** Card with a metric. */
export function StatCard({ label, value, note }: Props) {
  return (
    <Card padding="md" component="section" aria-label={label}>
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <Text fz="xl" fw={600} className="tabular" lh={1.3}>
        {value}
      </Text>
      {note && (
        <Text size="sm" c="dimmed">
          {note}
        </Text>
      )}
    </Card>
  );
}
