import { Virtuoso } from "react-virtuoso";
import type { LogEntry } from "@/data/logs";
import { stripAnsi } from "@/ui/log/ansi";
import { markHits } from "./highlight";
import styles from "./log.module.css";

const MATCH_PX = 22;
const SHOWN = 7;

type Props = { entries: LogEntry[]; q: string; current: number | null; onGo: (at: number) => void };

/** List of search matches. */
export function SearchMatches({ entries, q, current, onGo }: Props) {
  return (
    <div className={styles.matches}>
      <Virtuoso
        style={{ height: Math.min(entries.length, SHOWN) * MATCH_PX }}
        aria-label="Search matches"
        role="group"
        totalCount={entries.length}
        fixedItemHeight={MATCH_PX}
        itemContent={at => {
          const entry = entries[at];
          if (!entry) return null;
          return (
            <button
              type="button"
              className={styles.match}
              aria-current={at === current}
              onClick={() => onGo(at)}
            >
              <span className={styles.matchNumber}>{entry.line}</span>
              <span className={styles.matchText}>
                {markHits([{ text: stripAnsi(entry.text) }], q).map((piece, index) =>
                  piece.isHit ? (
                    // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
                    <mark key={index}>{piece.text}</mark>
                  ) : (
                    piece.text
                  ),
                )}
              </span>
            </button>
          );
        }}
      />
    </div>
  );
}
