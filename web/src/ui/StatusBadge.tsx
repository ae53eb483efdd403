import { Badge, type BadgeProps } from "@mantine/core";
import type { StatusStyle } from "@/theme/status";
import styles from "./status.module.css";

type Props = { status: StatusStyle; label?: string };

/** Status as a badge: icon, colour and word. */
export function StatusBadge({ status, label, ...rest }: Props & BadgeProps) {
  return (
    <Badge
      leftSection={<StatusIcon status={status} size={13} />}
      classNames={{ root: styles.badge }}
      style={{ "--status": `var(--berth-${status.tone})` }}
      {...rest}
    >
      {label ?? status.label}
    </Badge>
  );
}

/** Status as inline text with an icon. */
export function StatusText({ status, label }: Props) {
  return (
    <span className={styles.text} style={{ color: `var(--berth-${status.tone})` }}>
      <StatusIcon status={status} />
      <span className={styles.word}>{label ?? status.label}</span>
    </span>
  );
}

type IconProps = { status: StatusStyle; size?: number; title?: string };

/** The icon of a status in its colour. Without a word next to it, it needs a title. */
export function StatusIcon({ status, size = 15, title }: IconProps) {
  const Icon = status.icon;
  return (
    <Icon
      size={size}
      stroke={2.2}
      color={`var(--berth-${status.tone})`}
      className={status.isAnimated ? (status.tone === "busy" ? "busy-ring" : "busy-dot") : undefined}
      style={{ flex: "none" }}
      role={title ? "img" : undefined}
      aria-label={title}
      aria-hidden={title ? undefined : true}
    />
  );
}
