import { useMemo, useRef } from "react";
import type { ListRange } from "react-virtuoso";

/** So many rows in a tenth of a second and nobody reads them. */
const FLIGHT_ROWS_MIN = 50;
const LANDING_ROWS_MAX = 10;

/**
 * For long lists: what flies past is not drawn, and `look` is not told of it. It hears where the flight ended, and of
 * every move that is slow enough to read.
 */
export function useFlight(rowPx: number, look: (range: ListRange) => void) {
  const looks = useRef(look);
  looks.current = look;
  return useMemo(() => {
    let isFlying = false;
    let seen: ListRange = { startIndex: 0, endIndex: 0 };
    return {
      rangeChanged: (range: ListRange) => {
        seen = range;
        if (!isFlying) looks.current(range);
      },
      scrollSeekConfiguration: {
        enter: (px: number) => {
          isFlying = Math.abs(px) > FLIGHT_ROWS_MIN * rowPx;
          return isFlying;
        },
        exit: (px: number) => {
          isFlying = Math.abs(px) > LANDING_ROWS_MAX * rowPx;
          if (!isFlying) looks.current(seen);
          return !isFlying;
        },
      },
    };
  }, [rowPx]);
}
