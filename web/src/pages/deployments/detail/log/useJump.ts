import { type RefObject, useEffect } from "react";
import { readRange } from "./range";

/** Lines of a link that was clicked; a new object each time. */
export type Jump = { lines: string };

/** A link from elsewhere on the page leads into the log: to its lines, and with the keyboard too. */
export function useJump(
  frame: RefObject<HTMLDivElement | null>,
  jump: Jump | null,
  goTo: RefObject<(line: number) => void>,
) {
  useEffect(() => {
    const range = readRange(jump?.lines);
    if (!range) return;
    goTo.current(range.from);
    frame.current?.scrollIntoView({ block: "nearest" });
    frame.current?.querySelector<HTMLElement>("[role=region]")?.focus({ preventScroll: true });
  }, [frame, jump, goTo]);
}
