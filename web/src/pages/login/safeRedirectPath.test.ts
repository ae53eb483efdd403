import { expect, test } from "vitest";
import { safeRedirectPath } from "./safeRedirectPath";

test.each([
  "//evil.test/",
  "https://evil.test/",
  "/\\evil.test",
  "javascript:alert(1)",
  "o/acme",
  "",
  undefined,
])("safeRedirectPath of a foreign URL is /: %s", next => {
  expect(safeRedirectPath(next)).toBe("/");
});

test("safeRedirectPath of a dashboard path is unchanged", () => {
  expect(safeRedirectPath("/o/acme/events?kind=step_failed")).toBe("/o/acme/events?kind=step_failed");
});
