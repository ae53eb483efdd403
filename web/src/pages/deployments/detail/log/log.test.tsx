import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { LINE_CHARS_SHOWN_MAX, LINE_PIECES_MAX, parseAnsi, stripAnsi } from "@/ui/log/ansi";
import { detectFailingLine } from "./failingLine";
import { buildGroups, findGroup, type GroupMark, initiallyFolded, VisibleRows } from "./groups";
import { markHits } from "./highlight";
import { HOSTILE_LINES } from "./hostileLines";
import { LogLine } from "./LogLine";
import { formatRange, parseRange, selectLine } from "./range";

function renderLine(text: string, q = "") {
  const nothing = () => {};
  return render(
    <LogLine
      number={1}
      entry={{ line: 1, text }}
      group={undefined}
      isFolded={false}
      isChosen={false}
      isFailing={false}
      q={q}
      onNumber={nothing}
      onFold={nothing}
    />,
  ).container;
}

const ALLOWED_TAGS = ["DIV", "BUTTON", "SPAN", "MARK"];

test.each(HOSTILE_LINES.map((text, at) => [at, text]))("hostile line %i is rendered as text", (_, text) => {
  for (const q of ["", "<", "e"]) {
    const page = renderLine(text, q);
    for (const element of page.querySelectorAll("*")) {
      expect(ALLOWED_TAGS).toContain(element.tagName);
      for (const { name } of element.attributes) {
        expect(["class", "type", "tabindex", "aria-label"].includes(name) || name.startsWith("data-")).toBe(
          true,
        );
      }
    }
    expect(page.querySelectorAll("*").length).toBeLessThan(LINE_PIECES_MAX * 3);
    expect(page.textContent?.length ?? 0).toBeLessThan(LINE_CHARS_SHOWN_MAX + 400);
    expect([...(page.textContent ?? "")].filter(isControl)).toEqual([]);
  }
  expect((window as { __ran?: number }).__ran).toBeUndefined();
});

/** Whether it is a control character other than tab, or a bidirectional control. */
function isControl(character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  const isC = (code < 0x20 && code !== 0x09) || (code >= 0x7f && code <= 0x9f);
  return isC || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

test("markup is rendered as text", () => {
  expect(renderLine('<img src=x onerror="window.__ran = 1">').textContent).toBe(
    '<img src=x onerror="window.__ran = 1">',
  );
});

test.each([
  ["\u001b[31mred\u001b[0m plain", [{ text: "red", className: "red" }, { text: " plain" }]],
  ["\u001b[1;92mok\u001b[m", [{ text: "ok", className: "bold green" }]],
  ["\u001b[38;5;196mred\u001b[0m", [{ text: "red", className: "red" }]],
  ["\u001b[38;2;20;200;220mcyan\u001b[0m", [{ text: "cyan", className: "cyan" }]],
  ["\u001b[41mpaper\u001b[0m", [{ text: "paper", className: "on-red" }]],
  ["10%\r55%\r100%", [{ text: "100%" }]],
  ["done\r", [{ text: "done" }]],
])("parseAnsi of %j", (text, found) => {
  expect(parseAnsi(text)).toEqual(found);
});

test("bidirectional controls are escaped", () => {
  expect(stripAnsi("user\u202etxt.exe")).toBe("user[U+202E]txt.exe");
});

test("a hit that spans two pieces is marked in both", () => {
  const marked = markHits([{ text: "err", className: "red" }, { text: "or here" }], "error");
  expect(marked.filter(piece => piece.isHit).map(piece => piece.text)).toEqual(["err", "or"]);
  expect(marked.map(piece => piece.text).join("")).toBe("error here");
});

const entries = (...texts: string[]) => texts.map((text, at) => ({ line: at + 1, text }));

test.each([
  [["ok", "error: no such host", "  at main.rs", "1 failed"], 2],
  [["ok", "\u001b[31mERROR\u001b[0m boom", "a", "b", "c", "d", "e", "f", "g", "tests failed: 3"], 10],
  [["ok", "0 errors", "no failures", "done"], 4],
  [["building", "[berth] cancelled: timed out after 1m"], 1],
  [["[berth] cancelled"], null],
  [[], null],
])("detectFailingLine of %j is %s", (texts, line) => {
  expect(detectFailingLine(entries(...texts))).toBe(line);
});

const marks: GroupMark[] = [
  { line: 3, title: "Build", state: "closed" },
  { line: 10, title: "Test", state: "open" },
  { line: 15, title: "", state: "end" },
  { line: 20, title: "Ship", state: "quiet" },
];

test("groups end before the next group, at their end mark or with the log", () => {
  expect(buildGroups(marks, 30).map(group => [group.line, group.end])).toEqual([
    [3, 9],
    [10, 15],
    [20, 30],
  ]);
});

test("closed groups are folded at first unless they contain a line of interest", () => {
  const groups = buildGroups(marks, 30);
  expect([...initiallyFolded(groups, [])]).toEqual([3, 20]);
  expect([...initiallyFolded(groups, [25])]).toEqual([3]);
  expect(findGroup(groups, 17)).toBeUndefined();
});

test("rows and lines map to each other whatever is folded", () => {
  const groups = buildGroups(marks, 30);
  for (const folded of [[], [3], [3, 20], [10], [3, 10, 20]]) {
    const rows = new VisibleRows(groups, new Set(folded), 30);
    const hidden = groups
      .filter(group => folded.includes(group.line))
      .reduce((sum, it) => sum + it.end - it.line, 0);
    expect(rows.count).toBe(30 - hidden);
    for (let row = 0; row < rows.count; row++) expect(rows.rowOf(rows.lineAt(row))).toBe(row);
    for (const line of folded) expect(rows.rowOf(line + 1)).toBe(rows.rowOf(line));
  }
});

test.each([
  ["L10", { from: 10, to: 10 }],
  ["L10-L20", { from: 10, to: 20 }],
  ["20-10", { from: 10, to: 20 }],
  ["L0", null],
  ["10-", null],
  ["L99999999999", null],
  ["<script>", null],
  [undefined, null],
])("parseRange of %s", (text, range) => {
  expect(parseRange(text)).toEqual(range);
  if (range) expect(parseRange(formatRange(range))).toEqual(range);
});

test("a click selects a line, with shift a range", () => {
  const one = selectLine(null, 5, true);
  expect(one).toEqual({ from: 5, to: 5 });
  expect(selectLine(one, 9, true)).toEqual({ from: 5, to: 9 });
  expect(selectLine({ from: 5, to: 9 }, 2, true)).toEqual({ from: 2, to: 9 });
  expect(selectLine({ from: 5, to: 9 }, 7, false)).toEqual({ from: 7, to: 7 });
});
