import { act, cleanup, render } from "@testing-library/react";
import { type ListRange, Virtuoso, VirtuosoMockContext } from "react-virtuoso";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useFlight } from "./flight";

const ROW_PX = 20;
const FRAME_MS = 20;
const FRAMES = 20;
/** The list calls it rest when nothing moved for a tenth of a second. */
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
        {...useFlight(onRange)}
      />
    </VirtuosoMockContext.Provider>
  );
}

/** A list somebody scrolls: how often it was blank meanwhile, and what was looked at. */
async function list() {
  const looked: number[] = [];
  const { container } = render(<List onRange={({ startIndex }) => looked.push(startIndex)} />);
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
  return { looked, jump, scroll, isBlank, pass, rest: () => pass(REST_MS), container };
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test("what flies past is not looked at, where it lands is", async () => {
  const { looked, scroll, rest, isBlank } = await list();
  expect(await scroll(1)).toBe(0);
  expect(looked.at(-1)).toBe(20);

  expect(await scroll(100)).toBeGreaterThan(FRAMES / 2);
  expect(looked).not.toContain(2_020);
  await rest();
  expect(isBlank()).toBe(false);
  expect(looked.at(-1)).toBe(2_020);
});

test("a flight that becomes slow has ended", async () => {
  const { scroll, isBlank } = await list();
  await scroll(100);
  expect(isBlank()).toBe(true);
  await scroll(1);
  expect(isBlank()).toBe(false);
});

test("who jumps, stops and scrolls slowly sees every line", async () => {
  const { looked, jump, scroll, rest, isBlank } = await list();
  jump(5_000);
  await rest();
  expect(isBlank()).toBe(false);
  expect(await scroll(1)).toBe(0);
  expect(looked.at(-1)).toBe(5_020);
  expect(await scroll(100), "and still flies").toBeGreaterThan(FRAMES / 2);
});

test("a row with the focus is not taken away", async () => {
  const { jump, pass, container } = await list();
  jump(1_000);
  const focused = container.querySelector<HTMLElement>("[data-index='1010'] button");
  focused?.focus();
  await pass(FRAME_MS);
  jump(1_001);
  await pass(REST_MS);
  expect(focused?.textContent).toBe("1010");
  expect(document.activeElement).toBe(focused);
});
