import { Text, type TextProps, Tooltip } from "@mantine/core";
import { useNow } from "@/data/now";
import { absolute, clock, relative } from "@/words/time";

/** "3 min ago", with the moment itself on hover and for screen readers. */
export function When({ at, ...rest }: { at: string } & TextProps) {
  const now = useNow();
  return (
    <Tooltip label={absolute(at)}>
      <Text component="time" span inherit dateTime={at} {...rest}>
        {relative(at, now)}
      </Text>
    </Tooltip>
  );
}

/** What is left until then, second by second. */
export function Countdown({ until, ...rest }: { until: string } & TextProps) {
  const left = (new Date(until).getTime() - useNow()) / 1000;
  const soon = left < 600;
  return (
    <Tooltip label={`until ${absolute(until)}`}>
      <Text
        component="time"
        span
        inherit
        className="tabular"
        dateTime={until}
        c={soon ? "var(--berth-warn)" : undefined}
        fw={soon ? 600 : undefined}
        {...rest}
      >
        {left <= 0 ? "ending now" : clock(left)}
      </Text>
    </Tooltip>
  );
}
