import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Virtuoso, type VirtuosoHandle } from "react-virtuoso";
import type { LogBuffer, LogState } from "@/data/logBuffer";
import { useFastScroll } from "@/ui/fastScroll";
import type { LogGroup, VisibleRows } from "./groups";
import { LogLine, LogLinePlaceholder } from "./LogLine";
import styles from "./log.module.css";
import type { LineRange } from "./range";
import { useRoomBelow } from "./useRoomBelow";

export const LINE_PX = 20;
const BOX_PX_MIN = 3 * LINE_PX;
/** The log fills the window below it, unless less than this is left of it. */
const FILLED_PX_MIN = 16 * LINE_PX;
/** Margin below the log. */
const BELOW_PX = 16;
/** Space for the horizontal scrollbar. */
const SCROLLBAR_PX = 24;
/** Overscan: pixels rendered and lines loaded beyond the visible area. */
const AHEAD_PX = 120;
const AHEAD_LINES = 200;
/** Context shown above the line that a log opens at. */
const ABOVE_PX = 8 * LINE_PX;
/** Interval of requests for lines while scrolling. */
const REQUEST_EVERY_MS = 60;
/** Smaller moves are rounding errors of the browser, not scrolling by the user. */
const SCROLL_PX_MIN = 4;

const PLACEHOLDER = { ScrollSeekPlaceholder: LogLinePlaceholder };

type Props = {
  label: string;
  buffer: LogBuffer;
  state: LogState;
  rows: VisibleRows;
  groups: LogGroup[];
  folded: ReadonlySet<number>;
  chosen: LineRange | null;
  failing: number | null;
  q: string;
  wrap: boolean;
  isFollowing: boolean;
  /** Whether the log grew while it was shown. */
  wasWatched: boolean;
  /** Whether the log covers the window. */
  isFull: boolean;
  start: number;
  handle: RefObject<VirtuosoHandle | null>;
  onFollow: (follow: boolean) => void;
  onNumber: (line: number, isExtending: boolean) => void;
  onFold: (line: number) => void;
};

/** Virtualized list of log lines. */
export function LogLines(props: Props) {
  const { buffer, rows, groups, folded, chosen, isFollowing, handle, wrap } = props;
  const [scroller, setScroller] = useState<HTMLElement | null>(null);
  const pending = useRef<ReturnType<typeof setTimeout>>(undefined);
  const seen = useRef<[number, number]>([0, 0]);
  /** The log may grow or be folded before the delayed request runs. */
  const newest = useRef({ buffer, rows });
  newest.current = { buffer, rows };
  const headings = useMemo(() => new Map(groups.map(group => [group.line, group])), [groups]);
  const start = useRef(props.start).current;

  useEffect(
    () => () => {
      clearTimeout(pending.current);
      pending.current = undefined;
    },
    [],
  );

  useEffect(() => {
    if (!isFollowing || rows.count === 0) return;
    handle.current?.scrollToIndex({ index: rows.count - 1, align: "end" });
    // The newest line is rendered a frame later; scroll again once it is.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => scroller?.scrollTo({ top: scroller.scrollHeight }));
    });
    return () => cancelAnimationFrame(frame);
  }, [isFollowing, rows.count, handle, scroller]);

  const { onFollow } = props;
  useEffect(() => {
    if (!scroller || !isFollowing) return;
    let last = scroller.scrollTop;
    const moved = () => {
      if (scroller.scrollTop < last - SCROLL_PX_MIN) onFollow(false);
      last = scroller.scrollTop;
    };
    scroller.addEventListener("scroll", moved, { passive: true });
    return () => scroller.removeEventListener("scroll", moved);
  }, [scroller, isFollowing, onFollow]);

  const requestVisible = useCallback(() => {
    pending.current ??= setTimeout(() => {
      pending.current = undefined;
      const { buffer, rows } = newest.current;
      const [from, to] = seen.current;
      const lines: number[] = [];
      for (
        let row = Math.max(0, from - AHEAD_LINES);
        row <= Math.min(rows.count - 1, to + AHEAD_LINES);
        row++
      )
        lines.push(rows.lineAt(row));
      buffer.want(lines);
    }, REQUEST_EVERY_MS);
  }, []);

  const fastScroll = useFastScroll(({ startIndex, endIndex }) => {
    seen.current = [startIndex, endIndex];
    requestVisible();
  });

  // Visible lines may have been evicted from the cache.
  const { version } = props.state;
  useEffect(() => {
    if (version === 0) return;
    const [from, to] = seen.current;
    for (let row = from; row <= Math.min(to, rows.count - 1); row++)
      if (!buffer.line(rows.lineAt(row))) return requestVisible();
  }, [version, buffer, rows, requestVisible]);

  const room = useRoomBelow(scroller);
  const isRoomy = room !== null && room - BELOW_PX >= FILLED_PX_MIN;
  // Far down the page, a followed log stays small, so that its newest line is in the window after one scroll.
  const roomPx = isRoomy ? `${room - BELOW_PX}px` : props.wasWatched ? `${FILLED_PX_MIN}px` : "68vh";
  const contentPx = wrap && rows.count > 3 ? roomPx : `${rows.count * LINE_PX + SCROLLBAR_PX}px`;
  const height = props.isFull ? "100%" : `max(${BOX_PX_MIN}px, min(${roomPx}, ${contentPx}))`;
  // The newest line stays visible while the box grows, unless the user is looking at another part of the page.
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when the height changes
  useEffect(() => {
    if (!isFollowing || !scroller || scroller.getBoundingClientRect().top > window.innerHeight) return;
    scroller.scrollIntoView({ block: "nearest" });
  }, [isFollowing, scroller, height]);
  return (
    <div className={`${styles.lines} ${wrap ? styles.wrapped : ""}`}>
      <Virtuoso
        key={wrap ? "wrapped" : "plain"}
        ref={handle}
        className={styles.scroller}
        style={{ height }}
        scrollerRef={element => setScroller(element instanceof HTMLElement ? element : null)}
        tabIndex={0}
        data-autofocus={props.isFull || undefined}
        role="region"
        aria-label={props.label}
        totalCount={rows.count}
        fixedItemHeight={wrap ? undefined : LINE_PX}
        increaseViewportBy={AHEAD_PX}
        initialTopMostItemIndex={
          isFollowing ? { index: start, align: "end" } : { index: start, align: "start", offset: -ABOVE_PX }
        }
        components={PLACEHOLDER}
        context={rows}
        {...fastScroll}
        itemContent={row => {
          const line = rows.lineAt(row);
          return (
            <LogLine
              number={line}
              entry={buffer.line(line)}
              group={headings.get(line)}
              isFolded={folded.has(line)}
              isChosen={chosen !== null && line >= chosen.from && line <= chosen.to}
              isFailing={line === props.failing}
              q={props.q}
              onNumber={props.onNumber}
              onFold={props.onFold}
            />
          );
        }}
      />
      {!isFollowing && !props.state.isComplete && (
        <Button
          className={styles.follow}
          size="xs"
          radius="xl"
          leftSection={<IconArrowDown size={14} />}
          onClick={() => props.onFollow(true)}
        >
          Follow
        </Button>
      )}
    </div>
  );
}
