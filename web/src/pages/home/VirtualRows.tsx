import type { ReactNode } from "react";
import { Virtuoso } from "react-virtuoso";

const AHEAD_PX = 400;
/** Rendered before the list has measured its window. */
const INITIAL_ROWS = 25;

type Props = { keys: string[]; row: (index: number) => ReactNode };

/** Rows that scroll with the window. Lazy-loaded. */
export default function VirtualRows({ keys, row }: Props) {
  return (
    <Virtuoso
      useWindowScroll
      totalCount={keys.length}
      initialItemCount={Math.min(INITIAL_ROWS, keys.length)}
      computeItemKey={index => keys[index] ?? index}
      increaseViewportBy={AHEAD_PX}
      itemContent={row}
    />
  );
}
