import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RefetchSchedule } from "./refetchSchedule";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Returns a schedule whose refetches take this long, and the times at which each began. */
function startSchedule(tookMs: number) {
  const begun: [number, string[]][] = [];
  const origin = Date.now();
  const schedule = new RefetchSchedule<string>(keys => {
    begun.push([Date.now() - origin, keys]);
    return new Promise(done => setTimeout(done, tookMs));
  });
  return { schedule, begun };
}

test("the events of a burst cause one refetch, soon after the first", async () => {
  const { schedule, begun } = startSchedule(20);
  schedule.add(["environments"]);
  await vi.advanceTimersByTimeAsync(10);
  schedule.add(["deployed", "environments"]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(begun).toEqual([[40, ["environments", "deployed"]]]);
});

test("a change right after a refetch is visible within 200 ms on a fast server", async () => {
  const { schedule, begun } = startSchedule(20);
  for (let at = 0; at < 10; at++) {
    schedule.add(["deployments"]);
    await vi.advanceTimersByTimeAsync(50);
  }
  await vi.advanceTimersByTimeAsync(1_000);
  expect(begun.map(([at]) => at)).toEqual([40, 190, 340, 490]);
});

test("refetches do not overlap, and a slow server gets fewer of them", async () => {
  const { schedule, begun } = startSchedule(300);
  for (let at = 0; at < 60; at++) {
    schedule.add(["deployments"]);
    await vi.advanceTimersByTimeAsync(50);
  }
  expect(begun.map(([at]) => at)).toEqual([40, 640, 1_240, 1_840, 2_440]);
});

test("the pause after a refetch is bounded, and a failed refetch is followed by others", async () => {
  let count = 0;
  const schedule = new RefetchSchedule<string>(async () => {
    count++;
    await new Promise(done => setTimeout(done, 1_500));
    throw new Error("the server is down");
  });
  schedule.add(["members"]);
  await vi.advanceTimersByTimeAsync(1_600);
  schedule.add(["members"]);
  await vi.advanceTimersByTimeAsync(500);
  expect(count).toBe(2);
  schedule.stop();
  schedule.add(["members"]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(count).toBe(2);
});

test("a refetch that hangs delays the next one for ten seconds", async () => {
  const { schedule, begun } = startSchedule(3_600_000);
  schedule.add(["members"]);
  await vi.advanceTimersByTimeAsync(100);
  schedule.add(["members"]);
  await vi.advanceTimersByTimeAsync(12_000);
  expect(begun.map(([at]) => at)).toEqual([40, 10_080]);
});
