import { expect, onTestFinished, test, vi } from "vitest";
import { Outline } from "@/pages/deployment/log/outline";
import { CHUNK_LINES, CHUNKS_MAX, LogBook, type LogReader } from "./logBook";
import type { Log, LogEntry, LogSource } from "./logs";

const SOURCE: LogSource = { org: "acme", deploymentId: "dep_1", stepId: "stp_1", attempt: 1, stream: "step" };

/** A log of so many lines on a server that can grow it. */
function server(lines: number, isComplete = true) {
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

test("the end is there first, the rest when it is looked at", async () => {
  const { reader } = server(10_000);
  const book = new LogBook(SOURCE, reader);
  book.open();
  await vi.waitFor(() => expect(book.state().isOpen).toBe(true));
  expect(book.line(10_000)?.text).toBe("line 10000");
  expect(book.line(1)).toBeUndefined();
  book.want(range(1, 40));
  await vi.waitFor(() => expect(book.line(40)?.text).toBe("line 40"));
});

test("a million lines are never in memory at once", async () => {
  const { reader } = server(1_000_000);
  const book = new LogBook(SOURCE, reader);
  book.open();
  await vi.waitFor(() => expect(book.state().isOpen).toBe(true));
  for (let line = 1; line < 1_000_000; line += 9_000) {
    book.want(range(line, line + 40));
    await vi.waitFor(() => expect(book.line(line + 40)).toBeDefined(), { interval: 1 });
    expect(book.held()).toBeLessThanOrEqual(CHUNKS_MAX * CHUNK_LINES);
  }
  expect(book.line(1)).toBeUndefined();
});

test("what flew past is not fetched", async () => {
  const { log, reader } = server(1_000_000);
  const book = new LogBook(SOURCE, reader);
  book.open();
  await vi.waitFor(() => expect(book.state().isOpen).toBe(true));
  for (let line = 1; line < 500_000; line += 5_000) book.want(range(line, line + 40));
  book.want(range(800_000, 800_040));
  await vi.waitFor(() => expect(book.line(800_040)).toBeDefined());
  expect(log.asked).toBeLessThan(12);
});

test("it grows while it is followed, a half line becomes whole, and the end ends it", async () => {
  const { log, reader } = server(3, false);
  const book = new LogBook(SOURCE, reader);
  book.open();
  await vi.waitFor(() => expect(log.isFollowed).toBe(true));
  log.lines = 2_000;
  log.grown();
  await vi.waitFor(() => expect(book.state().lines).toBe(2_000));
  expect(book.line(3), "it may have been half a line").toBeUndefined();
  book.want(range(1, 10));
  await vi.waitFor(() => expect(book.line(3)?.text).toBe("line 3"));
  log.isComplete = true;
  log.grown();
  await vi.waitFor(() => expect(log.isFollowed).toBe(false));
  expect(book.state().isComplete).toBe(true);
});

test("a failure is told, and trying again heals it", async () => {
  const { reader } = server(5);
  let isAway = true;
  const tail = reader.tail;
  const book = new LogBook(SOURCE, {
    ...reader,
    tail: (...asked) => (isAway ? Promise.reject(new Error("away")) : tail(...asked)),
  });
  book.open();
  await vi.waitFor(() => expect(book.state().error).toBeInstanceOf(Error));
  isAway = false;
  book.retry();
  await vi.waitFor(() => expect(book.state().lines).toBe(5));
  expect(book.state().error).toBeNull();
});

test("a server that fails is asked ever less often, and at once when somebody tries again", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { log, reader } = server(10_000);
  let isAway = true;
  const lines = reader.lines;
  const book = new LogBook(SOURCE, {
    ...reader,
    lines: async (...asked) => {
      const answer = await lines(...asked);
      if (isAway) throw new Error("away");
      return answer;
    },
  });
  book.open();
  await vi.advanceTimersByTimeAsync(0);
  // As the page does: whatever changes, it looks again.
  book.watch(() => setTimeout(() => book.want(range(1, 40)), 60));
  book.want(range(1, 40));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(log.asked).toBeGreaterThan(5);
  expect(log.asked).toBeLessThan(12);
  expect(book.state().error).toBeInstanceOf(Error);

  isAway = false;
  book.retry();
  await vi.advanceTimersByTimeAsync(0);
  expect(book.line(40)?.text).toBe("line 40");
  expect(book.state().error).toBeNull();
});

test("lines that could not be had come by themselves when the server is back", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { reader } = server(10_000);
  const book = new LogBook(SOURCE, {
    ...reader,
    lines: vi.fn(reader.lines).mockRejectedValueOnce(new Error("away")),
  });
  book.open();
  await vi.advanceTimersByTimeAsync(0);
  book.want(range(1, 40));
  await vi.advanceTimersByTimeAsync(0);
  expect(book.state().error).toBeInstanceOf(Error);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(book.line(40)?.text).toBe("line 40");
  expect(book.state().error).toBeNull();
});

test("groups of a long log are searched for, those of a short one are heard", async () => {
  const heading: LogEntry = { line: 7, text: "--- Build", group: { title: "Build", state: "closed" } };
  const asked: string[] = [];
  const outline = new Outline(SOURCE, async (_, q) => {
    asked.push(q);
    return { entries: q === "--- " ? [heading, { line: 9, text: "a --- b" }] : [], isWhole: true };
  });
  outline.heard([{ line: 9_000, text: "end" }], 9_000, true);
  await vi.waitFor(() => expect(outline.state().isReady).toBe(true));
  expect(outline.state().marks).toEqual([{ line: 7, title: "Build", state: "closed" }]);
  expect(asked).toHaveLength(5);

  const short = new Outline(SOURCE, () => Promise.reject(new Error("nobody asks")));
  short.heard([{ line: 1, text: "" }, heading], 8, true);
  expect(short.state()).toEqual({ marks: [{ line: 7, title: "Build", state: "closed" }], isReady: true });
});
