import { expect, test } from "vitest";
import { count, readSearch, writeSearch } from "./search";

test("what is written into an address is read back as it was", () => {
  for (const values of [
    { attempt: "1", lines: "L10-L20" },
    { q: '"error" & 50% of +1', search: "true" },
    { q: "[1,2]", kind: "null", from: "2026-11-01" },
  ])
    expect(readSearch(writeSearch(values))).toEqual(values);
});

test("numbers stand in an address without quotes, and what is absent does not stand there", () => {
  expect(writeSearch({ attempt: "1", q: undefined, lines: "" })).toBe("?attempt=1");
  expect(writeSearch({})).toBe("");
});

test("an address with quotes still leads to its attempt", () => {
  expect(count(readSearch("?attempt=%221%22").attempt)).toBe("1");
  expect(count("one")).toBeUndefined();
  expect(count("-1")).toBeUndefined();
});
