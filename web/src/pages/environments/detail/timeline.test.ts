import { expect, test } from "vitest";
import { PERSON_TONES } from "@/format/person";
import { assignTones, findSpan, findTicks } from "./timeline";

const HOUR = 3_600_000;
const NOW = Date.parse("2026-11-18T12:00:00.000Z");

test("the timeline begins with the oldest session, at most a week ago", () => {
  expect(findSpan(NOW - 5 * HOUR, NOW)).toEqual({ from: NOW - 5 * HOUR, to: NOW });
  expect(findSpan(NOW - 500 * HOUR, NOW)).toEqual({ from: NOW - 168 * HOUR, to: NOW });
  expect(NOW - findSpan(NOW - 1_000, NOW).from).toBe(600_000);
});

test.each([0.2, 1, 5, 24, 168])("a timeline of %d hours has a few round ticks inside", hours => {
  const span = findSpan(NOW - hours * HOUR, NOW);
  const ticks = findTicks(span);
  expect(ticks.length).toBeGreaterThan(1);
  expect(ticks.length).toBeLessThanOrEqual(9);
  for (const tick of ticks) {
    expect(tick).toBeGreaterThanOrEqual(span.from);
    expect(tick).toBeLessThanOrEqual(span.to);
    expect(new Date(tick).getSeconds()).toBe(0);
  }
});

test("people in a timeline have different colours, whatever their order", () => {
  const names = Array.from({ length: PERSON_TONES }, (_, at) => `person ${at}`);
  expect(new Set(assignTones(names).values()).size).toBe(PERSON_TONES);
  expect([...assignTones([...names].reverse())]).toEqual([...assignTones(names)]);
});
