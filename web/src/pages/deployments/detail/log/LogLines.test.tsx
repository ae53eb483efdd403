import { MantineProvider } from "@mantine/core";
import { act, cleanup, render } from "@testing-library/react";
import { StrictMode } from "react";
import { VirtuosoMockContext } from "react-virtuoso";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LogBuffer } from "@/data/logBuffer";
import type { LogEntry } from "@/data/logs";
import { VisibleRows } from "./groups";
import { LINE_PX, LogLines } from "./LogLines";

const LINES = 5_000;

function openBuffer() {
  const answer = (from: number, to: number) => {
    const entries: LogEntry[] = [];
    for (let line = from; line <= to; line++) entries.push({ line, text: `line ${line}` });
    return Promise.resolve({ stepId: "stp_1", attempt: 1, complete: true, bytes: 1, lines: LINES, entries });
  };
  const buffer = new LogBuffer(
    { org: "acme", deploymentId: "dep_1", stepId: "stp_1", attempt: 1, stream: "step" },
    {
      tail: (_, count) => answer(LINES - count + 1, LINES),
      lines: (_, from, to) => answer(from, to),
      follow: () => () => {},
    },
  );
  buffer.open();
  return buffer;
}

function TestLog({ buffer, rows }: { buffer: LogBuffer; rows: VisibleRows }) {
  const nothing = () => {};
  return (
    <MantineProvider>
      <VirtuosoMockContext.Provider value={{ viewportHeight: 20 * LINE_PX, itemHeight: LINE_PX }}>
        <LogLines
          label="Log"
          buffer={buffer}
          state={buffer.state()}
          rows={rows}
          groups={[]}
          folded={new Set()}
          chosen={null}
          failing={null}
          q=""
          wrap={false}
          isFollowing={false}
          wasWatched={false}
          isFull={false}
          start={0}
          handle={{ current: null }}
          onFollow={nothing}
          onNumber={nothing}
          onFold={nothing}
        />
      </VirtuosoMockContext.Provider>
    </MantineProvider>
  );
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const advanceTimers = () => act(() => vi.advanceTimersByTimeAsync(1_000));

test("lines are loaded when StrictMode mounts the list twice", async () => {
  const buffer = openBuffer();
  await advanceTimers();
  render(<TestLog buffer={buffer} rows={new VisibleRows([], new Set(), LINES)} />, { wrapper: StrictMode });
  await advanceTimers();
  expect(buffer.line(1)?.text).toBe("line 1");
});

test("folding a group while a request is pending loads the lines after the group", async () => {
  const buffer = openBuffer();
  await advanceTimers();
  const group = { line: 1, end: 3_000, title: "Build", state: "closed" } as const;
  const { rerender } = render(<TestLog buffer={buffer} rows={new VisibleRows([], new Set(), LINES)} />);
  rerender(<TestLog buffer={buffer} rows={new VisibleRows([group], new Set([1]), LINES)} />);
  await advanceTimers();
  expect(buffer.line(3_001)?.text).toBe("line 3001");
});
