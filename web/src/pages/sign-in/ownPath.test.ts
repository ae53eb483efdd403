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
])("an address of somebody else is not followed: %s", next => {
  expect(ownPath(next)).toBe("/");
});

test("a page of ours is", () => {
  expect(ownPath("/o/acme/events?kind=step_failed")).toBe("/o/acme/events?kind=step_failed");
});
