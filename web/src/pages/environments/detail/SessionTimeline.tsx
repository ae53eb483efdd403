import type { HistoryEntry } from "@/api/types";
import { useNow } from "@/data/clock";
import { formatHolder } from "@/format/holder";
import { formatDateTime, formatDuration, formatTick } from "@/format/time";
import classes from "./environment.module.css";
import { assignTones, findLabelledTicks, findSpan, findTicks } from "./timeline";

/** Timeline of the sessions on the current page of the history: an axis, and a colour for each person. */
export function SessionTimeline({ sessions }: { sessions: HistoryEntry[] }) {
  const now = useNow();
  const oldest = sessions.at(-1);
  if (!oldest) return null;
  const timeOf = (time: string | null | undefined) => (time ? Date.parse(time) : now);
  const span = findSpan(timeOf(oldest.claimedAt), Math.max(...sessions.map(each => timeOf(each.endedAt))));
  const shown = sessions.filter(each => timeOf(each.endedAt) > span.from);
  const percent = (time: number) => (100 * (Math.max(time, span.from) - span.from)) / (span.to - span.from);
  const tones = assignTones(shown.map(each => each.holder.name));
  const colour = (name: string) => `var(--berth-person-${tones.get(name)})`;
  const ticks = findTicks(span);
  return (
    <div className={classes.timeline}>
      <div
        className={classes.strip}
        role="img"
        aria-label={`${shown.length} sessions in ${formatDuration((span.to - span.from) / 1000)}, by ${[...tones.keys()].join(", ")}`}
      >
        {ticks.map(tick => (
          <i key={tick} className={classes.tick} style={{ left: `${percent(tick)}%` }} />
        ))}
        {shown.map(each => {
          const from = percent(timeOf(each.claimedAt));
          return (
            <span
              key={each.sessionId}
              className={classes.bar}
              style={{
                left: `${from}%`,
                width: `${percent(timeOf(each.endedAt)) - from}%`,
                background: colour(each.holder.name),
              }}
              title={[
                formatHolder(each),
                each.context && `“${each.context}”`,
                `${formatDateTime(each.claimedAt)}, ${formatDuration(each.durationSeconds)}`,
              ]
                .filter(Boolean)
                .join("\n")}
            />
          );
        })}
      </div>
      <div className={classes.axis} aria-hidden>
        {findLabelledTicks(span).map(tick => (
          <span key={tick} style={{ left: `${percent(tick)}%` }}>
            {formatTick(tick, span.to - span.from)}
          </span>
        ))}
      </div>
      <ul className={classes.legend} aria-label="Holders">
        {[...tones.keys()].map(name => (
          <li key={name}>
            <i style={{ background: colour(name) }} aria-hidden />
            {name}
          </li>
        ))}
      </ul>
    </div>
  );
}
