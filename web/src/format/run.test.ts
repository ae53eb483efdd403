import { expect, test } from "vitest";
import type { DeploymentStage } from "@/api/types";
import { formatTook, workingSeconds } from "./run";

const NOON = Date.parse("2026-11-18T12:00:00.000Z");

/** A stage with attempts, each from and to a number of seconds after noon. */
function stageWith(...spans: [number, number | null][]): DeploymentStage {
  const at = (seconds: number) => new Date(NOON + seconds * 1000).toISOString();
  const attempts = spans.map(([from, to]) => ({
    startedAt: at(from),
    finishedAt: to === null ? null : at(to),
  }));
  return { steps: [{ attempts }] } as unknown as DeploymentStage;
}

test("waiting for an approval does not count as working time", () => {
  const stages = [stageWith([0, 20], [10, 30]), stageWith([750, 761])];
  expect(workingSeconds({ stages }, NOON)).toBe(41);
  expect(formatTook(761, 41)).toBe("41 s (+12 min waiting)");
});

test("a running step counts until now", () => {
  expect(workingSeconds({ stages: [stageWith([0, null])] }, NOON + 5_000)).toBe(5);
});

test.each([
  [15, 14, "15 s"],
  [90, 0, "1 min 30 s"],
])("formatTook(%d, %d) has no waiting time", (seconds, working, text) => {
  expect(formatTook(seconds, working)).toBe(text);
});
