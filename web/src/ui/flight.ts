import { useMemo, useRef } from "react";
import type { ListRange } from "react-virtuoso";

/** Rows scrolled in a tenth of a second; faster than this is not readable. */
const FLIGHT_ROWS_MIN = 50;
const LANDING_ROWS_MAX = 10;

/**
 * For long lists: what flies past is not drawn, and `onRange` is not called. It is called where the flight ends, and for
 * every move that is slow enough to read. A focused row keeps its focus.
 */
export function useFlight(onRange: (range: ListRange) => void) {
  const listener = useRef(onRange);
  listener.current = onRange;
  return useMemo(() => {
    let isFlying = false;
    let seen: ListRange = { startIndex: 0, endIndex: 0 };
    let at = 0;
    // The list asks ten times a second, and with 0 when it came to rest. Its own speed counts a jump, to a line or to
    // the end, to the move that comes after it: only where it was asked about last tells how far it moved since.
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
          isFlying = rowsMoved(px, range) > FLIGHT_ROWS_MIN && !isFocusInRow();
          return isFlying;
        },
        exit: (px: number, range: ListRange) => {
          isFlying = rowsMoved(px, range) > LANDING_ROWS_MAX;
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
