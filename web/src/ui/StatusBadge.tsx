import { Badge, type BadgeProps, Group, Text } from "@mantine/core";
import { type StatusStyle, TONE_COLOUR } from "@/theme/status";

/** Status as a badge. */
export function StatusBadge({
  status,
  label,
  ...rest
}: { status: StatusStyle; label?: string } & BadgeProps) {
  const Icon = status.icon;
  return (
    <Badge
      color={TONE_COLOUR[status.tone]}
      leftSection={
        <Icon size={13} stroke={2.2} aria-hidden className={status.isAnimated ? "busy-dot" : undefined} />
      }
      styles={{ root: { color: `var(--berth-${status.tone})`, flex: "none" } }}
      {...rest}
    >
      {label ?? status.label}
    </Badge>
  );
}

/** Status as inline text with an icon. */
export function StatusText({ status, label }: { status: StatusStyle; label?: string }) {
  const Icon = status.icon;
  return (
    <Group gap={5} wrap="nowrap" c={`var(--berth-${status.tone})`} component="span" display="inline-flex">
      <Icon size={15} stroke={2.2} aria-hidden className={status.isAnimated ? "busy-dot" : undefined} />
      <Text span inherit>
        {label ?? status.label}
      </Text>
    </Group>
  );
}
