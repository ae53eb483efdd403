/** Lines in an address: `L10` or `L10-L20`. */
export type Range = { from: number; to: number };

const LINE_MAX = 1_000_000_000;

export function readRange(text: string | undefined): Range | null {
  const found = /^L?(\d{1,10})(?:-L?(\d{1,10}))?$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2] ?? found[1])];
  if (from < 1 || to < 1 || Math.max(from, to) > LINE_MAX) return null;
  return { from: Math.min(from, to), to: Math.max(from, to) };
}

export function writeRange({ from, to }: Range): string {
  return from === to ? `L${from}` : `L${from}-L${to}`;
}

/** Another press: with shift the range grows to the line, without it the line alone is meant. */
export function press(range: Range | null, line: number, isExtending: boolean): Range {
  if (!isExtending || !range) return { from: line, to: line };
  return line < range.from ? { from: line, to: range.to } : { from: range.from, to: line };
}
