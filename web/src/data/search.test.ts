import { expect, test } from "vitest";
import { count, readSearch, writeSearch } from "./search";

test("search parameters survive a round trip through the URL", () => {
  for (const values of [
    { attempt: "1", lines: "L10-L20" },
    { q: '"error" & 50% of +1', search: "true" },
    { q: "[1,2]", kind: "null", from: "2026-11-01" },
  ])
    expect(readSearch(writeSearch(values))).toEqual(values);
});

test("numbers are written without quotes, absent values are left out", () => {
  expect(writeSearch({ attempt: "1", q: undefined, lines: "" })).toBe("?attempt=1");
  expect(writeSearch({})).toBe("");
});

test("a quoted number in an old link is still read", () => {
  expect(count(readSearch("?attempt=%221%22").attempt)).toBe("1");
  expect(count("one")).toBeUndefined();
  expect(count("-1")).toBeUndefined();
});
