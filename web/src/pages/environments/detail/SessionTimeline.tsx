import type { HistoryEntry } from "@/api/types";
import { useNow } from "@/data/clock";
import { formatHolder } from "@/format/holder";
import { formatDuration } from "@/format/time";
import classes from "./environment.module.css";

const WIDTH = 1000;
const HEIGHT = 34;
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
  const people = [...new Set(sessions.map(each => each.holder.id))];
  return (
    <svg
      className={classes.strip}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${sessions.length} sessions in ${formatDuration((to - from) / 1000)}`}
    >
      {sessions.map(each => {
        const start = x(at(each.claimedAt));
        const tone = people.indexOf(each.holder.id) % 4;
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
  );
}
