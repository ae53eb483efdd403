import { expect, test } from "vitest";
import { ownPath } from "./ownPath";

test.each([
  "//evil.test/",
  "https://evil.test/",
  "/\\evil.test",
  "javascript:alert(1)",
  "o/acme",
  "",
  undefined,
])("ownPath of a foreign URL is /: %s", next => {
  expect(ownPath(next)).toBe("/");
});

test("ownPath of a dashboard path is unchanged", () => {
  expect(ownPath("/o/acme/events?kind=step_failed")).toBe("/o/acme/events?kind=step_failed");
});
