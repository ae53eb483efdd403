/** Foldable groups of a log, and the mapping between rows and lines while some are folded. */
import type { LogEntry } from "@/data/logs";

export type GroupMark = { line: number; title: string; state: "closed" | "open" | "quiet" | "end" };
export type LogGroup = { line: number; end: number; title: string; state: "closed" | "open" | "quiet" };

export function collectMarks(entries: LogEntry[]): GroupMark[] {
  return entries.flatMap(({ line, group }) => (group ? [{ line, ...group }] : []));
}

/** Builds groups from marks in line order. A group ends before the next one, at its end mark, or with the log. */
export function buildGroups(marks: GroupMark[], lines: number): LogGroup[] {
  const groups: LogGroup[] = [];
  marks.forEach((mark, at) => {
    if (mark.state === "end") return;
    const next = marks[at + 1];
    const end = next === undefined ? lines : next.state === "end" ? next.line : next.line - 1;
    groups.push({ line: mark.line, end, title: mark.title, state: mark.state });
  });
  return groups;
}

/** Returns the group that contains a line, its heading included. */
export function findGroup(groups: LogGroup[], line: number): LogGroup | undefined {
  let low = 0;
  let high = groups.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const group = groups[middle];
    if (!group) return undefined;
    if (line < group.line) high = middle - 1;
    else if (line > group.end) low = middle + 1;
    else return group;
  }
  return undefined;
}

/** Returns the groups folded at first: closed and quiet ones, except those that contain one of these lines. */
export function initiallyFolded(groups: LogGroup[], lookAt: number[]): Set<number> {
  const looked = new Set(lookAt.map(line => findGroup(groups, line)?.line));
  return new Set(
    groups.filter(each => each.state !== "open" && !looked.has(each.line)).map(each => each.line),
  );
}

type LineRun = { row: number; line: number; count: number };

/** Maps rows to visible lines, stored as runs of consecutive lines. Rows count from 0, lines from 1. */
export class VisibleRows {
  readonly count: number;
  readonly #runs: LineRun[] = [];

  constructor(groups: LogGroup[], folded: ReadonlySet<number>, lines: number) {
    let line = 1;
    let row = 0;
    const show = (to: number) => {
      if (to < line) return;
      this.#runs.push({ row, line, count: to - line + 1 });
      row += to - line + 1;
    };
    for (const group of groups) {
      if (!folded.has(group.line) || group.end <= group.line) continue;
      show(group.line);
      line = group.end + 1;
    }
    show(lines);
    this.count = row;
  }

  lineAt(row: number): number {
    const run = this.#find(each => each.row <= row);
    return run ? run.line + Math.min(row - run.row, run.count - 1) : 1;
  }

  /** Row of a line; for a folded line, the row of its heading. */
  rowOf(line: number): number {
    const run = this.#find(each => each.line <= line);
    return run ? run.row + Math.min(line - run.line, run.count - 1) : 0;
  }

  /** Binary search for the last run that satisfies a condition; it holds for a prefix of the runs. */
  #find(matches: (run: LineRun) => boolean): LineRun | undefined {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const run = this.#runs[middle];
      if (run && matches(run)) low = middle + 1;
      else high = middle;
    }
    return this.#runs[low - 1];
  }
}
