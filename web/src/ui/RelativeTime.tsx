import { Text, type TextProps } from "@mantine/core";
import { useNow } from "@/data/clock";
import { formatCountdown, formatDateTime, formatRelativeTime, formatSince } from "@/format/time";

/** Remaining time below which a countdown is highlighted. */
const SOON_S = 600;

/** "3 min ago"; the exact time is shown on hover. */
export function RelativeTime({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  return (
    <Text component="time" span inherit dateTime={at} title={formatDateTime(at)} {...rest}>
      {formatRelativeTime(at, now)}
    </Text>
  );
}

/** "since 14:02"; the duration is shown on hover. */
export function SinceTime({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  return (
    <Text component="time" span inherit dateTime={at} title={formatRelativeTime(at, now)} {...rest}>
      since {formatSince(at, now)}
    </Text>
  );
}

/** "until 16:00"; the remaining time is shown on hover. Highlighted shortly before. */
export function UntilTime({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  const isSoon = Date.parse(at) - now < SOON_S * 1000;
  return (
    <Text
      component="time"
      span
      inherit
      dateTime={at}
      title={formatRelativeTime(at, now)}
      c={isSoon ? "var(--berth-warn)" : undefined}
      fw={isSoon ? 600 : undefined}
      {...rest}
    >
      until {formatSince(at, now)}
    </Text>
  );
}

/** Remaining time, updated every second. */
export function Countdown({ until, ...rest }: { until: string } & TextProps) {
  const left = (new Date(until).getTime() - useNow()) / 1000;
  const isSoon = left < SOON_S;
  return (
    <Text
      component="time"
      span
      inherit
      className="tabular"
      dateTime={until}
      title={`until ${formatDateTime(until)}`}
      c={isSoon ? "var(--berth-warn)" : undefined}
      fw={isSoon ? 600 : undefined}
      {...rest}
    >
      {left <= 0 ? "expiring" : formatCountdown(left)}
    </Text>
  );
}
