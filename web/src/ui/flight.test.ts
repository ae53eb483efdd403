import { renderHook } from "@testing-library/react";
import type { ListRange } from "react-virtuoso";
import { expect, test } from "vitest";
import { useFlight } from "./flight";

const ROW_PX = 20;

test("what flies past is not looked at, where it lands is", () => {
  const looked: ListRange[] = [];
  const { result } = renderHook(() => useFlight(ROW_PX, range => looked.push(range)));
  const { rangeChanged, scrollSeekConfiguration: flight } = result.current;

  expect(flight.enter(-20 * ROW_PX)).toBe(false);
  rangeChanged({ startIndex: 20, endIndex: 40 });
  expect(looked).toEqual([{ startIndex: 20, endIndex: 40 }]);

  expect(flight.enter(-500 * ROW_PX)).toBe(true);
  rangeChanged({ startIndex: 520, endIndex: 540 });
  expect(flight.exit(40 * ROW_PX)).toBe(false);
  rangeChanged({ startIndex: 560, endIndex: 580 });
  expect(looked).toHaveLength(1);

  expect(flight.exit(0)).toBe(true);
  expect(looked.at(-1)).toEqual({ startIndex: 560, endIndex: 580 });
});
