import { Group } from "@mantine/core";
import type { HistoryEntry } from "@/api/types";
import { useNow } from "@/data/clock";
import { formatHolder } from "@/format/holder";
import { formatDuration, formatSince } from "@/format/time";
import classes from "./environment.module.css";

const WIDTH = 1000;
const HEIGHT = 34;
/** Number of colours. */
const TONES = 4;
/** Minimum width: a session of one second stays visible. */
const BAR_MIN = 3;

/** Timeline of the sessions on the current page of the history. */
export function SessionTimeline({ sessions }: { sessions: HistoryEntry[] }) {
  const now = useNow();
  const oldest = sessions.at(-1);
  if (!oldest || sessions.length < 2) return null;
  const at = (time: string | null | undefined) => (time ? new Date(time).getTime() : now);
  const from = at(oldest.claimedAt);
  const to = Math.max(...sessions.map(each => at(each.endedAt)));
  const x = (time: number) => ((time - from) / Math.max(1, to - from)) * WIDTH;
  // Oldest first: a new session does not change the colours of the earlier ones.
  const people = [...new Set(sessions.map(each => each.holder.id).reverse())];
  const nameOf = (id: string) => sessions.find(each => each.holder.id === id)?.holder.name;
  return (
    <div>
      <svg
        className={classes.strip}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${sessions.length} sessions in ${formatDuration((to - from) / 1000)}`}
      >
        {sessions.map(each => {
          const start = x(at(each.claimedAt));
          const tone = people.indexOf(each.holder.id) % TONES;
          return (
            <rect
              key={each.sessionId}
              x={start}
              width={Math.max(BAR_MIN, x(at(each.endedAt)) - start)}
              height={HEIGHT}
              className={classes[`tone${tone}`]}
            >
              <title>{`${formatHolder(each)}, ${formatDuration(each.durationSeconds)}`}</title>
            </rect>
          );
        })}
      </svg>
      <Group justify="space-between" fz="xs" c="dimmed" mt={4}>
        <span>{formatSince(oldest.claimedAt, now)}</span>
        <Group gap="md" component="ul" p={0} m={0} aria-label="Holders" style={{ listStyle: "none" }}>
          {people.map((id, at) => (
            <Group component="li" key={id} gap={6}>
              <svg width={10} height={10} aria-hidden>
                <rect width={10} height={10} rx={2} className={classes[`tone${at % TONES}`]} />
              </svg>
              {nameOf(id)}
            </Group>
          ))}
        </Group>
        <span>{to === now ? "now" : formatSince(new Date(to).toISOString(), now)}</span>
      </Group>
    </div>
  );
}
