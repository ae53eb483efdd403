import { expect, test } from "vitest";
import { type Problem, suggestAction } from "./problem";

const FORBIDDEN: Problem = {
  type: "/docs/errors/forbidden",
  title: "Permission denied",
  status: 403,
  detail: "this requires the stages:deploy permission on stage:shop@production",
  instance: "",
  code: "forbidden",
  requestId: "req_1",
};

function suggest(members: object): string | null {
  return suggestAction({ ...FORBIDDEN, ...members });
}

test("suggestAction names the members who can grant a missing permission", () => {
  const members = {
    permission: "stages:deploy",
    scope: "stage:shop@production",
    grantedBy: ["Ada", "Grace"],
  };
  expect(suggest(members)).toBe(
    "Ask Ada or Grace for the permission stages:deploy on the stage production of shop.",
  );
});

test("suggestAction names an admin if the problem names no member", () => {
  expect(suggest({})).toBe("Ask an admin of this organization for access.");
  expect(suggest({ permission: "runners:write", scope: "org" })).toBe(
    "Ask an admin of this organization for the permission runners:write.",
  );
});
