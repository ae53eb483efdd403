import { expect, onTestFinished, test, vi } from "vitest";
import { CHUNK_LINES, CHUNKS_MAX, LogBuffer, type LogReader } from "./logBuffer";
import type { Log, LogEntry, LogSource } from "./logs";

const SOURCE: LogSource = { org: "acme", deploymentId: "dep_1", stepId: "stp_1", attempt: 1, stream: "step" };

/** A fake server with a log of `lines` lines that can grow. */
function fakeServer(lines: number, isComplete = true) {
  const log = { lines, isComplete, asked: 0, grown: () => {}, isFollowed: false };
  const answer = (from: number, to: number): Log => {
    const entries: LogEntry[] = [];
    for (let line = from; line <= Math.min(to, log.lines); line++)
      entries.push({ line, text: `line ${line}` });
    const { isComplete: complete, lines } = log;
    return { stepId: "stp_1", attempt: 1, complete, bytes: lines * 10, lines, entries };
  };
  const reader: LogReader = {
    tail: async (_, count) => answer(Math.max(1, log.lines - count + 1), log.lines),
    lines: async (_, from, to) => {
      log.asked++;
      return answer(from, to);
    },
    follow: (_, __, grown) => {
      log.grown = grown;
      log.isFollowed = true;
      return () => {
        log.isFollowed = false;
      };
    },
  };
  return { log, reader };
}

function* range(from: number, to: number) {
  for (let line = from; line <= to; line++) yield line;
}

test("opening a log loads its tail, other lines are loaded on request", async () => {
  const { reader } = fakeServer(10_000);
  const buffer = new LogBuffer(SOURCE, reader);
  buffer.open();
  await vi.waitFor(() => expect(buffer.state().isOpen).toBe(true));
  expect(buffer.line(10_000)?.text).toBe("line 10000");
  expect(buffer.line(1)).toBeUndefined();
  buffer.want(range(1, 40));
  await vi.waitFor(() => expect(buffer.line(40)?.text).toBe("line 40"));
});

test("a log of a million lines never exceeds the chunk limit in memory", async () => {
  const { reader } = fakeServer(1_000_000);
  const buffer = new LogBuffer(SOURCE, reader);
  buffer.open();
  await vi.waitFor(() => expect(buffer.state().isOpen).toBe(true));
  for (let line = 1; line < 1_000_000; line += 9_000) {
    buffer.want(range(line, line + 40));
    await vi.waitFor(() => expect(buffer.line(line + 40)).toBeDefined(), { interval: 1 });
    expect(buffer.lineCount()).toBeLessThanOrEqual(CHUNKS_MAX * CHUNK_LINES);
  }
  expect(buffer.line(1)).toBeUndefined();
});

test("lines scrolled past quickly are not fetched", async () => {
  const { log, reader } = fakeServer(1_000_000);
  const buffer = new LogBuffer(SOURCE, reader);
  buffer.open();
  await vi.waitFor(() => expect(buffer.state().isOpen).toBe(true));
  for (let line = 1; line < 500_000; line += 5_000) buffer.want(range(line, line + 40));
  buffer.want(range(800_000, 800_040));
  await vi.waitFor(() => expect(buffer.line(800_040)).toBeDefined());
  expect(log.asked).toBeLessThan(12);
});

test("a followed log grows, reloads its last line and stops following at its end", async () => {
  const { log, reader } = fakeServer(3, false);
  const buffer = new LogBuffer(SOURCE, reader);
  buffer.open();
  await vi.waitFor(() => expect(log.isFollowed).toBe(true));
  log.lines = 2_000;
  log.grown();
  await vi.waitFor(() => expect(buffer.state().lines).toBe(2_000));
  expect(buffer.line(3), "an incomplete last line is evicted").toBeUndefined();
  buffer.want(range(1, 10));
  await vi.waitFor(() => expect(buffer.line(3)?.text).toBe("line 3"));
  log.isComplete = true;
  log.grown();
  await vi.waitFor(() => expect(log.isFollowed).toBe(false));
  expect(buffer.state().isComplete).toBe(true);
});

test("a failed request is reported and cleared by a retry", async () => {
  const { reader } = fakeServer(5);
  let isDown = true;
  const tail = reader.tail;
  const buffer = new LogBuffer(SOURCE, {
    ...reader,
    tail: (...asked) => (isDown ? Promise.reject(new Error("unreachable")) : tail(...asked)),
  });
  buffer.open();
  await vi.waitFor(() => expect(buffer.state().error).toBeInstanceOf(Error));
  isDown = false;
  buffer.retry();
  await vi.waitFor(() => expect(buffer.state().lines).toBe(5));
  expect(buffer.state().error).toBeNull();
});

test("failed requests back off, and a retry skips the backoff", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { log, reader } = fakeServer(10_000);
  let isDown = true;
  const lines = reader.lines;
  const buffer = new LogBuffer(SOURCE, {
    ...reader,
    lines: async (...asked) => {
      const answer = await lines(...asked);
      if (isDown) throw new Error("unreachable");
      return answer;
    },
  });
  buffer.open();
  await vi.advanceTimersByTimeAsync(0);
  // Like the page: request the visible lines after every change.
  buffer.subscribe(() => setTimeout(() => buffer.want(range(1, 40)), 60));
  buffer.want(range(1, 40));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(log.asked).toBeGreaterThan(5);
  expect(log.asked).toBeLessThan(12);
  expect(buffer.state().error).toBeInstanceOf(Error);

  isDown = false;
  buffer.retry();
  await vi.advanceTimersByTimeAsync(0);
  expect(buffer.line(40)?.text).toBe("line 40");
  expect(buffer.state().error).toBeNull();
});

test("lines that failed to load are requested again after the backoff", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { reader } = fakeServer(10_000);
  const buffer = new LogBuffer(SOURCE, {
    ...reader,
    lines: vi.fn(reader.lines).mockRejectedValueOnce(new Error("unreachable")),
  });
  buffer.open();
  await vi.advanceTimersByTimeAsync(0);
  buffer.want(range(1, 40));
  await vi.advanceTimersByTimeAsync(0);
  expect(buffer.state().error).toBeInstanceOf(Error);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(buffer.line(40)?.text).toBe("line 40");
  expect(buffer.state().error).toBeNull();
});
