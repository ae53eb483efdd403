import { Text, type TextProps } from "@mantine/core";
import { useNow } from "@/data/now";
import { absolute, clock, relative, sinceWhen } from "@/format/time";

/** Remaining time below which a countdown is highlighted. */
const SOON_S = 600;

/** "3 min ago"; the exact time is shown on hover. */
export function When({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  return (
    <Text component="time" span inherit dateTime={at} title={absolute(at)} {...rest}>
      {relative(at, now)}
    </Text>
  );
}

/** "since 14:02"; the duration is shown on hover. */
export function Since({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  return (
    <Text component="time" span inherit dateTime={at} title={relative(at, now)} {...rest}>
      since {sinceWhen(at, now)}
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
      title={`until ${absolute(until)}`}
      c={isSoon ? "var(--berth-warn)" : undefined}
      fw={isSoon ? 600 : undefined}
      {...rest}
    >
      {left <= 0 ? "expiring" : clock(left)}
    </Text>
  );
}
