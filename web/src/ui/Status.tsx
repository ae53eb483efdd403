import { Badge, type BadgeProps, Group, Text } from "@mantine/core";
import { type Look, TONE_COLOUR } from "@/theme/status";

/** A state as a badge: icon and word in one colour. */
export function Status({ look, word, ...rest }: { look: Look; word?: string } & BadgeProps) {
  const Icon = look.icon;
  return (
    <Badge
      color={TONE_COLOUR[look.tone]}
      leftSection={
        <Icon size={13} stroke={2.2} aria-hidden className={look.moves ? "busy-dot" : undefined} />
      }
      styles={{ root: { color: `var(--berth-${look.tone})`, flex: "none" } }}
      {...rest}
    >
      {word ?? look.word}
    </Badge>
  );
}

/** The same as plain text, for tables and sentences. */
export function StatusText({ look, word }: { look: Look; word?: string }) {
  const Icon = look.icon;
  return (
    <Group gap={5} wrap="nowrap" c={`var(--berth-${look.tone})`} component="span" display="inline-flex">
      <Icon size={15} stroke={2.2} aria-hidden className={look.moves ? "busy-dot" : undefined} />
      <Text span inherit>
        {word ?? look.word}
      </Text>
    </Group>
  );
}
