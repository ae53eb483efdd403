import { expect, test } from "vitest";
import type { DeploymentStage, DeploymentStep } from "@/api/types";
import { runningSeconds, secondsBeforeStage, WorkingTime, waitingSeconds } from "./timeline";

const NOON = Date.parse("2026-11-18T12:00:00.000Z");

function at(seconds: number | null): string | null {
  return seconds === null ? null : new Date(NOON + seconds * 1000).toISOString();
}

/** A step from and to a number of seconds after noon, with attempts. */
function step(from: number, to: number | null, ...attempts: [number, number | null][]): DeploymentStep {
  return {
    status: to === null ? "running" : "succeeded",
    startedAt: at(from),
    finishedAt: at(to),
    attempts: attempts.map(([start, end]) => ({ startedAt: at(start), finishedAt: at(end) })),
  } as unknown as DeploymentStep;
}

function stage(steps: DeploymentStep[], finished: number | null = null): DeploymentStage {
  return { status: "running", steps, finishedAt: at(finished) } as unknown as DeploymentStage;
}

test("the axis leaves out the time in which nothing ran", () => {
  const first = step(0, 30, [0, 30]);
  const second = step(750, 760, [750, 760]);
  const time = new WorkingTime([stage([first]), stage([second])], NOON);
  expect(time.total).toBe(40_000);
  expect(time.bars(first, NOON)).toEqual([{ start: 0, width: 0.75 }]);
  expect(time.bars(second, NOON)).toEqual([{ start: 0.75, width: 0.25 }]);
});

test("parallel steps share the axis, and a running step ends now", () => {
  const first = step(0, 20, [0, 20]);
  const second = step(10, null, [10, null]);
  const now = NOON + 40_000;
  const time = new WorkingTime([stage([first, second])], now);
  expect(time.total).toBe(40_000);
  expect(time.bars(second, now)).toEqual([{ start: 0.25, width: 0.75 }]);
});

test("waiting of a step is the time between its attempts", () => {
  const retried = step(0, 100, [0, 5], [90, 100]);
  expect(runningSeconds(retried, NOON)).toBe(15);
  expect(waitingSeconds(retried, NOON)).toBe(85);
  const approval = step(0, 720);
  expect(runningSeconds(approval, NOON)).toBeNull();
  expect(waitingSeconds(approval, NOON)).toBe(720);
  expect(waitingSeconds(step(0, 12, [1, 12]), NOON)).toBeNull();
});

test("a stage waits between the end of the previous stage and its first attempt", () => {
  const staging = stage([step(0, 10, [0, 10])], 10);
  const waiting = stage([]);
  expect(secondsBeforeStage(stage([step(730, 740, [730, 740])]), staging, NOON)).toBe(720);
  expect(secondsBeforeStage(waiting, staging, NOON + 70_000)).toBe(60);
  expect(secondsBeforeStage(staging, undefined, NOON)).toBeNull();
});

test("without attempts there are no bars", () => {
  const waiting = step(0, null);
  expect(new WorkingTime([stage([waiting])], NOON).bars(waiting, NOON)).toEqual([]);
});
