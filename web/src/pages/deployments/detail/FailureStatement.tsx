import { Title } from "@mantine/core";

/** The one sentence that says what failed. */
export function FailureStatement({ text }: { text: string }) {
  return (
    <Title order={2} fz="md" fw={600} className="wrap" c="var(--berth-bad)">
      {text}
    </Title>
  );
}
