import { expect, test } from "vitest";
import { classifyDiffLines } from "./DiffView";
import { escapeLine } from "./escape";

test("a removed line that looks like a file header is classified as removed", () => {
  const lines = [
    "diff --git a/x b/x",
    "--- a/x",
    "+++ b/x",
    "@@ -1,2 +1,2 @@",
    " same",
    "--- old",
    "+++ new",
  ];
  expect(classifyDiffLines(lines)).toEqual([
    "header",
    "header",
    "header",
    "hunk",
    undefined,
    "removed",
    "added",
  ]);
});

test("the header of a second file is not classified as part of a hunk", () => {
  expect(classifyDiffLines(["@@ -1 +1 @@", "-a", "+b", "diff --git a/y b/y", "index 1..2"]).at(-1)).toBe(
    "header",
  );
});

test("mode changes are classified as removed and added", () => {
  expect(classifyDiffLines(["diff --git a/x b/x", "old mode 100644", "new mode 100755"])).toEqual([
    "header",
    "removed",
    "added",
  ]);
});

test("escapeLine shows carriage returns and bidirectional controls", () => {
  expect(escapeLine("a\r")).toBe("a␍");
  expect(escapeLine("safe\u202eliam\u0007")).toBe("safe[U+202E]liam");
});
