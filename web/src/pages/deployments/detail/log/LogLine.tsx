import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { memo } from "react";
import type { LogEntry } from "@/data/logs";
import { parseAnsi, stripAnsi, type TextPiece } from "@/ui/log/ansi";
import type { LogGroup, VisibleRows } from "./groups";
import { markHits } from "./highlight";
import styles from "./log.module.css";

type Props = {
  number: number;
  entry: LogEntry | undefined;
  group: LogGroup | undefined;
  isFolded: boolean;
  isChosen: boolean;
  isFailing: boolean;
  q: string;
  onNumber: (line: number, isExtending: boolean) => void;
  onFold: (line: number) => void;
};

/** Cache of parsed lines, which are rendered repeatedly while scrolling. */
const pieceCache = new WeakMap<LogEntry, TextPiece[]>();

function cachedPieces(entry: LogEntry): TextPiece[] {
  const found = pieceCache.get(entry) ?? parseAnsi(entry.text);
  pieceCache.set(entry, found);
  return found;
}

/** One log line: its number, which selects it, and its text. */
export const LogLine = memo(function Line(props: Props) {
  const { number, entry, group, isChosen, isFailing } = props;
  return (
    <div
      className={styles.line}
      data-line={number}
      data-chosen={isChosen || undefined}
      data-failing={isFailing || undefined}
    >
      <button
        type="button"
        tabIndex={-1}
        className={styles.number}
        data-number={number}
        aria-label={`Line ${number}${isFailing ? ", failing line" : ""}`}
        onClick={event => props.onNumber(number, event.shiftKey)}
      />
      {group ? (
        <GroupHeading {...props} group={group} />
      ) : (
        <span className={styles.text}>
          {entry ? <LineText entry={entry} q={props.q} /> : <MissingLine />}
        </span>
      )}
    </div>
  );
});

/** Placeholder with the line number, shown while scrolling too fast to read. */
export function LogLinePlaceholder({
  index,
  height,
  context,
}: {
  index: number;
  height: number;
  context: VisibleRows;
}) {
  return <div className={styles.flying} style={{ height }} data-number={context.lineAt(index)} aria-hidden />;
}

function LineText({ entry, q }: { entry: LogEntry; q: string }) {
  const found = cachedPieces(entry);
  const only = q === "" && found.length === 1 && !entry.truncated ? found[0] : undefined;
  if (only && !only.className) return only.text;
  return (
    <>
      {markHits(found, q).map((piece, at) => {
        const className = piece.className
          ?.split(" ")
          .map(name => styles[name])
          .join(" ");
        return piece.isHit ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
          <mark key={at} className={className}>
            {piece.text}
          </mark>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: as above
          <span key={at} className={className}>
            {piece.text}
          </span>
        );
      })}
      {entry.truncated && <span className={styles.cut}> … (truncated, see the raw log)</span>}
    </>
  );
}

function GroupHeading({ group, isFolded, onFold }: Props & { group: LogGroup }) {
  const Icon = isFolded ? IconChevronRight : IconChevronDown;
  const hidden = group.end - group.line;
  return (
    <button
      type="button"
      className={styles.heading}
      data-quiet={group.state === "quiet" || undefined}
      aria-expanded={!isFolded}
      onClick={() => onFold(group.line)}
    >
      <Icon size={14} stroke={2.2} aria-hidden className={styles.chevron} />
      {stripAnsi(group.title)}
      {isFolded && hidden > 0 && (
        <span className={styles.hidden}>
          {hidden.toLocaleString()} {hidden === 1 ? "line" : "lines"}
        </span>
      )}
    </button>
  );
}

function MissingLine() {
  return <span className={styles.absent} aria-hidden />;
}
