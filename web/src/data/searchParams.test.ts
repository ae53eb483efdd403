import { expect, test } from "vitest";
import { parseCount, parseSearch, stringifySearch } from "./searchParams";

test("search parameters survive a round trip through the URL", () => {
  for (const values of [
    { attempt: "1", lines: "L10-L20" },
    { q: '"error" & 50% of +1', search: "true" },
    { q: "[1,2]", kind: "null", from: "2026-11-01" },
  ])
    expect(parseSearch(stringifySearch(values))).toEqual(values);
});

test("numbers are written without quotes, absent values are left out", () => {
  expect(stringifySearch({ attempt: "1", q: undefined, lines: "" })).toBe("?attempt=1");
  expect(stringifySearch({})).toBe("");
});

test("a quoted number in an old link is still read", () => {
  expect(parseCount(parseSearch("?attempt=%221%22").attempt)).toBe("1");
  expect(parseCount("one")).toBeUndefined();
  expect(parseCount("-1")).toBeUndefined();
});
