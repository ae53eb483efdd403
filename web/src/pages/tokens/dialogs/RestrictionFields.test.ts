import { expect, test } from "vitest";
import { toRestriction, UNRESTRICTED } from "./RestrictionFields";

test("toRestriction leaves out the restriction of a token with full access", () => {
  expect(toRestriction(UNRESTRICTED)).toBeUndefined();
});

test("toRestriction returns null until permissions and scope are complete", () => {
  const scope = { kind: "environment", pipeline: "shop", name: "" } as const;
  expect(
    toRestriction({ isRestricted: true, permissions: [], scope: { ...scope, name: "qa-*" } }),
  ).toBeNull();
  expect(toRestriction({ isRestricted: true, permissions: ["environments:claim"], scope })).toBeNull();
  expect(
    toRestriction({
      isRestricted: true,
      permissions: ["environments:claim"],
      scope: { ...scope, name: " qa-* " },
    }),
  ).toEqual([{ permissions: ["environments:claim"], scope: "environment:shop/qa-*" }]);
});
