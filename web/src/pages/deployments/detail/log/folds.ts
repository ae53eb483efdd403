/** Groups of a log, and which row of the screen shows which line while some of them are folded. */
import type { LogEntry } from "@/data/logs";

export type Mark = { line: number; title: string; state: "closed" | "open" | "quiet" | "end" };
export type Group = { line: number; end: number; title: string; state: "closed" | "open" | "quiet" };

export function marksOf(entries: LogEntry[]): Mark[] {
  return entries.flatMap(({ line, group }) => (group ? [{ line, ...group }] : []));
}

/** A group ends before the next one, at its end mark, or with the log. Marks come in the order of lines. */
export function groupsOf(marks: Mark[], lines: number): Group[] {
  const groups: Group[] = [];
  marks.forEach((mark, at) => {
    if (mark.state === "end") return;
    const next = marks[at + 1];
    const end = next === undefined ? lines : next.state === "end" ? next.line : next.line - 1;
    groups.push({ line: mark.line, end, title: mark.title, state: mark.state });
  });
  return groups;
}

/** The group a line is in, its heading included. */
export function groupAt(groups: Group[], line: number): Group | undefined {
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

/** Closed and quiet ones are folded, but never the one to look at: what runs, what failed, what a link leads to. */
export function foldedAtFirst(groups: Group[], lookAt: number[]): Set<number> {
  const looked = new Set(lookAt.map(line => groupAt(groups, line)?.line));
  return new Set(
    groups.filter(each => each.state !== "open" && !looked.has(each.line)).map(each => each.line),
  );
}

type Run = { row: number; line: number; count: number };

/** The lines that are shown, as runs of neighbours. Rows count from 0, lines from 1. */
export class Rows {
  readonly count: number;
  readonly #runs: Run[] = [];

  constructor(groups: Group[], folded: ReadonlySet<number>, lines: number) {
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

  /** The row of a line; of a folded one, the row of its heading. */
  rowOf(line: number): number {
    const run = this.#find(each => each.line <= line);
    return run ? run.row + Math.min(line - run.line, run.count - 1) : 0;
  }

  /** The last run for which this holds; it holds for a beginning of them. */
  #find(holds: (run: Run) => boolean): Run | undefined {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const run = this.#runs[middle];
      if (run && holds(run)) low = middle + 1;
      else high = middle;
    }
    return this.#runs[low - 1];
  }
}
