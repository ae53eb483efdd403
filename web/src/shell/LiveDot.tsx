import { Group, Text } from "@mantine/core";
import { IconPlugConnectedX, IconPointFilled } from "@tabler/icons-react";
import { useLiveState } from "@/data/live";

/** State of the event stream. */
export function LiveDot() {
  const state = useLiveState();
  const isLive = state === "live";
  const words = { live: "Live", connecting: "Connecting…", interrupted: "Reconnecting…" };
  const Icon = state === "interrupted" ? IconPlugConnectedX : IconPointFilled;
  return (
    <Group gap={4} px={6} wrap="nowrap" role="status" data-live={isLive}>
      <Icon size={14} aria-hidden color={isLive ? "#76c09d" : "#f0c360"} />
      <Text size="xs">{words[state]}</Text>
    </Group>
  );
}
