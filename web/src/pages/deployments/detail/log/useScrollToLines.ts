import { type RefObject, useEffect } from "react";
import { parseRange } from "./range";

/** Lines of a link that was clicked; a new object each time. */
export type LineTarget = { lines: string };

/** Scrolls to the lines of a clicked link and moves the focus into the log. */
export function useScrollToLines(
  frame: RefObject<HTMLDivElement | null>,
  jump: LineTarget | null,
  goTo: RefObject<(line: number) => void>,
) {
  useEffect(() => {
    const range = parseRange(jump?.lines);
    if (!range) return;
    goTo.current(range.from);
    frame.current?.querySelector<HTMLElement>("[role=region]")?.focus({ preventScroll: true });
  }, [frame, jump, goTo]);
}
