import { expect, test } from "vitest";
import { EVENT_KINDS } from "@/api/kinds.gen";
import { said } from "./event";

test.each([
  ["session_overridden", "took over"],
  ["token_created", "created the token"],
  ["deployment_succeeded", "deployment succeeded:"],
  ["approval_rejected", "approval rejected:"],
])("%s reads “%s”", (kind, text) => {
  expect(said(kind)).toBe(text);
});

test("no kind is shown with underscores", () => {
  expect(EVENT_KINDS.map(said).filter(text => text.includes("_"))).toEqual([]);
});
