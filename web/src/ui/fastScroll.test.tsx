import { act, cleanup, render } from "@testing-library/react";
import { type ListRange, Virtuoso, VirtuosoMockContext } from "react-virtuoso";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useFastScroll } from "./fastScroll";

const ROW_PX = 20;
const FRAME_MS = 20;
const FRAMES = 20;
/** The list reports rest after 100 ms without a move. */
const REST_MS = 150;

function Blank() {
  return <div className="blank" />;
}

const BLANK = { ScrollSeekPlaceholder: Blank };

function List({ onRange }: { onRange: (range: ListRange) => void }) {
  return (
    <VirtuosoMockContext.Provider value={{ viewportHeight: 20 * ROW_PX, itemHeight: ROW_PX }}>
      <Virtuoso
        totalCount={100_000}
        fixedItemHeight={ROW_PX}
        components={BLANK}
        itemContent={row => <button type="button">{row}</button>}
        {...useFastScroll(onRange)}
      />
    </VirtuosoMockContext.Provider>
  );
}

/** Renders a list; returns controls to scroll it, and the ranges it reported. */
async function renderList() {
  const reported: number[] = [];
  const { container } = render(<List onRange={({ startIndex }) => reported.push(startIndex)} />);
  const scroller = container.querySelector<HTMLElement>("[data-virtuoso-scroller]");
  if (!scroller) throw new Error("the list has no scroller");
  const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
  const isBlank = () => container.querySelector(".blank") !== null;
  const jump = (row: number) =>
    act(() => {
      scroller.scrollTop = row * ROW_PX;
      scroller.dispatchEvent(new Event("scroll"));
    });
  const scroll = async (rowsEachFrame: number) => {
    let blanks = 0;
    for (let frame = 0; frame < FRAMES; frame++) {
      jump(scroller.scrollTop / ROW_PX + rowsEachFrame);
      await pass(FRAME_MS);
      if (isBlank()) blanks++;
    }
    return blanks;
  };
  await pass(REST_MS);
  return { reported, jump, scroll, isBlank, pass, rest: () => pass(REST_MS), container };
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test("fast scrolling shows placeholders and reports only the final range", async () => {
  const { reported, scroll, rest, isBlank } = await renderList();
  expect(await scroll(1)).toBe(0);
  expect(reported.at(-1)).toBe(20);

  expect(await scroll(100)).toBeGreaterThan(FRAMES / 2);
  expect(reported).not.toContain(2_020);
  await rest();
  expect(isBlank()).toBe(false);
  expect(reported.at(-1)).toBe(2_020);
});

test("rows are rendered again when scrolling slows down", async () => {
  const { scroll, isBlank } = await renderList();
  await scroll(100);
  expect(isBlank()).toBe(true);
  await scroll(1);
  expect(isBlank()).toBe(false);
});

test("slow scrolling after a jump renders every row", async () => {
  const { reported, jump, scroll, rest, isBlank } = await renderList();
  jump(5_000);
  await rest();
  expect(isBlank()).toBe(false);
  expect(await scroll(1)).toBe(0);
  expect(reported.at(-1)).toBe(5_020);
  expect(await scroll(100), "fast scrolling afterwards").toBeGreaterThan(FRAMES / 2);
});

test("a focused row stays mounted during fast scrolling", async () => {
  const { jump, pass, container } = await renderList();
  jump(1_000);
  const focused = container.querySelector<HTMLElement>("[data-index='1010'] button");
  focused?.focus();
  await pass(FRAME_MS);
  jump(1_001);
  await pass(REST_MS);
  expect(focused?.textContent).toBe("1010");
  expect(document.activeElement).toBe(focused);
});
