import { expect, test, vi } from "vitest";
import type { LogEntry, LogSource } from "@/data/logs";
import { Outline } from "./outline";

const SOURCE: LogSource = { org: "acme", deploymentId: "dep_1", stepId: "stp_1", attempt: 1, stream: "step" };

test("groups of a long log are searched on the server, those of a short one are read from its tail", async () => {
  const heading: LogEntry = { line: 7, text: "--- Build", group: { title: "Build", state: "closed" } };
  const asked: string[] = [];
  const outline = new Outline(SOURCE, async (_, q) => {
    asked.push(q);
    return { entries: q === "--- " ? [heading, { line: 9, text: "a --- b" }] : [], isComplete: true };
  });
  outline.addTail([{ line: 9_000, text: "end" }], 9_000, true);
  await vi.waitFor(() => expect(outline.state().isReady).toBe(true));
  expect(outline.state().marks).toEqual([{ line: 7, title: "Build", state: "closed" }]);
  expect(asked).toHaveLength(5);

  const short = new Outline(SOURCE, () => Promise.reject(new Error("unexpected search")));
  short.addTail([{ line: 1, text: "" }, heading], 8, true);
  expect(short.state()).toEqual({ marks: [{ line: 7, title: "Build", state: "closed" }], isReady: true });
});
