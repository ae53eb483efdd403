import { expect, test } from "vitest";
import {
  formatCountdown,
  formatDuration,
  formatRelativeTime,
  formatRoughDuration,
  formatSince,
} from "./time";

test.each([
  [0, "0 s"],
  [59.6, "1 min"],
  [185, "3 min 5 s"],
  [7800, "2 h 10 min"],
  [273600, "3 d 4 h"],
])("formatDuration of %s seconds is %s", (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
});

test("formatRoughDuration keeps only the largest unit", () => {
  expect(formatRoughDuration(7800)).toBe("2 h");
});

test.each([
  [-3, "just now"],
  [-65, "1 min ago"],
  [7200, "in 2 h"],
])("formatRelativeTime of %s seconds from now is %s", (offset, text) => {
  const now = Date.parse("2026-01-02T12:00:00Z");
  expect(formatRelativeTime(new Date(now + offset * 1000), now)).toBe(text);
});

test.each([
  [7, "0:07"],
  [750, "12:30"],
  [3909, "1:05:09"],
  [90_000, "1 d 1 h"],
  [-5, "0:00"],
])("formatCountdown of %s seconds is %s", (seconds, text) => {
  expect(formatCountdown(seconds)).toBe(text);
});

test("formatSince is a time today and has a date otherwise", () => {
  const now = new Date(2026, 10, 15, 18, 0).getTime();
  expect(formatSince(new Date(2026, 10, 15, 14, 2).toISOString(), now)).toBe("14:02");
  expect(formatSince(new Date(2026, 10, 12, 9, 30).toISOString(), now)).toBe("12 Nov, 09:30");
});
