import { expect, test } from "vitest";
import type { Deployment } from "@/api/types";
import { defaultRollbackTarget, rollbackTargets } from "./rollbackTargets";

type Rollback = Deployment["rollback"];

function deployment(id: string, status = "succeeded", rollback: Rollback = null): Deployment {
  return {
    id,
    number: Number(id),
    rollback,
    stages: [{ name: "production", kind: "stage", status }],
  } as unknown as Deployment;
}

function rollbackTo(to: string, of: string): Rollback {
  return { stage: "production", to, of };
}

const defaultId = (recent: Deployment[], of: Deployment) =>
  defaultRollbackTarget(recent, of, "production")?.id;

test("the default is the last earlier deployment that succeeded", () => {
  const [three, two, one] = [deployment("3"), deployment("2", "failed"), deployment("1")];
  expect(defaultId([three, two, one], three)).toBe("1");
  expect(rollbackTargets([three, two, one], two, "production").map(each => each.id)).toEqual(["1"]);
});

test("a deployment that was rolled back is not the default", () => {
  const four = deployment("4", "succeeded", rollbackTo("1", "3"));
  const all = [deployment("5"), four, deployment("3"), deployment("2"), deployment("1")];
  expect(defaultId(all, all[0] as Deployment)).toBe("4");
  // 4 deployed the same as 1.
  expect(defaultId(all.slice(1), four)).toBe("2");
});

test("without an earlier success there is no target", () => {
  const first = deployment("1");
  expect(defaultId([first], first)).toBeUndefined();
});
