/** Line ranges in URLs: `L10` or `L10-L20`. */
export type LineRange = { from: number; to: number };

const LINE_MAX = 1_000_000_000;

export function parseRange(text: string | undefined): LineRange | null {
  const found = /^L?(\d{1,10})(?:-L?(\d{1,10}))?$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2] ?? found[1])];
  if (from < 1 || to < 1 || Math.max(from, to) > LINE_MAX) return null;
  return { from: Math.min(from, to), to: Math.max(from, to) };
}

export function formatRange({ from, to }: LineRange): string {
  return from === to ? `L${from}` : `L${from}-L${to}`;
}

/** Range after a click on a line number: that line, or with shift the range extended to it. */
export function selectLine(range: LineRange | null, line: number, isExtending: boolean): LineRange {
  if (!isExtending || !range) return { from: line, to: line };
  return line < range.from ? { from: line, to: range.to } : { from: range.from, to: line };
}
