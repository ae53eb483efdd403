import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { LINE_CHARS_SHOWN_MAX, LINE_PIECES_MAX, pieces, withoutColours } from "@/ui/log/ansi";
import { failingLine } from "./failing";
import { foldedAtFirst, groupAt, groupsOf, type Mark, Rows } from "./folds";
import { highlight } from "./highlight";
import { HOSTILE } from "./hostile";
import { Line } from "./Line";
import { press, readRange, writeRange } from "./range";

function renderLine(text: string, q = "") {
  const nothing = () => {};
  return render(
    <Line
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

test.each(HOSTILE.map((text, at) => [at, text]))("hostile line %i is rendered as text", (_, text) => {
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
])("pieces of %j", (text, found) => {
  expect(pieces(text)).toEqual(found);
});

test("bidirectional controls are escaped", () => {
  expect(withoutColours("user\u202etxt.exe")).toBe("user[U+202E]txt.exe");
});

test("a hit that spans two pieces is marked in both", () => {
  const marked = highlight([{ text: "err", className: "red" }, { text: "or here" }], "error");
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
])("failingLine of %j is %s", (texts, line) => {
  expect(failingLine(entries(...texts))).toBe(line);
});

const marks: Mark[] = [
  { line: 3, title: "Build", state: "closed" },
  { line: 10, title: "Test", state: "open" },
  { line: 15, title: "", state: "end" },
  { line: 20, title: "Ship", state: "quiet" },
];

test("groups end before the next group, at their end mark or with the log", () => {
  expect(groupsOf(marks, 30).map(group => [group.line, group.end])).toEqual([
    [3, 9],
    [10, 15],
    [20, 30],
  ]);
});

test("closed groups are folded at first unless they contain a line of interest", () => {
  const groups = groupsOf(marks, 30);
  expect([...foldedAtFirst(groups, [])]).toEqual([3, 20]);
  expect([...foldedAtFirst(groups, [25])]).toEqual([3]);
  expect(groupAt(groups, 17)).toBeUndefined();
});

test("rows and lines map to each other whatever is folded", () => {
  const groups = groupsOf(marks, 30);
  for (const folded of [[], [3], [3, 20], [10], [3, 10, 20]]) {
    const rows = new Rows(groups, new Set(folded), 30);
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
])("readRange of %s", (text, range) => {
  expect(readRange(text)).toEqual(range);
  if (range) expect(readRange(writeRange(range))).toEqual(range);
});

test("a click selects a line, with shift a range", () => {
  const one = press(null, 5, true);
  expect(one).toEqual({ from: 5, to: 5 });
  expect(press(one, 9, true)).toEqual({ from: 5, to: 9 });
  expect(press({ from: 5, to: 9 }, 2, true)).toEqual({ from: 2, to: 9 });
  expect(press({ from: 5, to: 9 }, 7, false)).toEqual({ from: 7, to: 7 });
});
