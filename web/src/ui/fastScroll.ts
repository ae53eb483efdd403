import { useMemo, useRef } from "react";
import type { ListRange } from "react-virtuoso";

/** Rows per 100 ms above which scrolling is too fast to read. */
const FAST_ROWS_MIN = 50;
const SLOW_ROWS_MAX = 10;

/**
 * Props for long virtualized lists: while the user scrolls too fast to read, rows are not rendered and `onRange` is not
 * called. It is called when scrolling slows down. A focused row stays mounted.
 */
export function useFastScroll(onRange: (range: ListRange) => void) {
  const listener = useRef(onRange);
  listener.current = onRange;
  return useMemo(() => {
    let isFlying = false;
    let seen: ListRange = { startIndex: 0, endIndex: 0 };
    let at = 0;
    // The list calls this every 100 ms, with 0 px at rest. Its speed attributes a jump to the move after it, so compute
    // the distance from the previous position.
    const rowsMoved = (px: number, { startIndex }: ListRange) => {
      const rows = px === 0 ? 0 : Math.abs(startIndex - at);
      at = startIndex;
      return rows;
    };
    return {
      rangeChanged: (range: ListRange) => {
        seen = range;
        if (!isFlying) listener.current(range);
      },
      scrollSeekConfiguration: {
        enter: (px: number, range: ListRange) => {
          isFlying = rowsMoved(px, range) > FAST_ROWS_MIN && !isFocusInRow();
          return isFlying;
        },
        exit: (px: number, range: ListRange) => {
          isFlying = rowsMoved(px, range) > SLOW_ROWS_MAX;
          if (!isFlying) listener.current(seen);
          return !isFlying;
        },
      },
    };
  }, []);
}

function isFocusInRow(): boolean {
  return document.activeElement?.closest("[data-index]") != null;
}
