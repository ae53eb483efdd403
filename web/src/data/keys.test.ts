import { expect, test } from "vitest";
import { EVENT_KINDS } from "@/api/kinds.gen";
import { madeOld } from "./keys";

/** Kinds that change nothing but the history. */
const HISTORY_ONLY = ["login", "password", "access", "root"];

test("every kind of event says what it makes old", () => {
  const silent = EVENT_KINDS.filter(kind => madeOld(kind).length === 0);
  expect(silent.filter(kind => !HISTORY_ONLY.some(start => kind.startsWith(`${start}_`)))).toEqual([]);
});

test("a claim makes the board and Home old", () => {
  expect(madeOld("session_claimed")).toEqual(["environments", "deployed"]);
});
