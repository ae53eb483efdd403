import { expect, test } from "vitest";
import { EVENT_KINDS } from "@/api/kinds.gen";
import { invalidatedBy } from "./keys";

/** Kinds that invalidate nothing but the events. */
const HISTORY_ONLY = ["login", "password", "access", "root"];

test("every kind of event invalidates a noun", () => {
  const silent = EVENT_KINDS.filter(kind => invalidatedBy(kind).length === 0);
  expect(silent.filter(kind => !HISTORY_ONLY.some(start => kind.startsWith(`${start}_`)))).toEqual([]);
});

test("a claim invalidates the board and Home", () => {
  expect(invalidatedBy("session_claimed")).toEqual(["environments", "deployed"]);
});
