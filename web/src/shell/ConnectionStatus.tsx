import { Group, Text } from "@mantine/core";
import { IconPlugConnectedX, IconPointFilled } from "@tabler/icons-react";
import { useConnectionState } from "@/data/eventStream";

/** State of the event stream; nothing for users who may not read events. */
export function ConnectionStatus() {
  const state = useConnectionState();
  if (state === "unavailable") return null;
  const isLive = state === "live";
  const labels = { live: "Live", connecting: "Connecting…", interrupted: "Reconnecting…" };
  const Icon = state === "interrupted" ? IconPlugConnectedX : IconPointFilled;
  return (
    <Group gap={4} px={6} wrap="nowrap" role="status" data-live={isLive}>
      <Icon size={14} aria-hidden color={isLive ? "#76c09d" : "#f0c360"} />
      <Text size="xs">{labels[state]}</Text>
    </Group>
  );
}
