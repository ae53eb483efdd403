import { expect, test } from "vitest";
import type { DeploymentStage } from "@/api/types";
import { layoutStages } from "./layout";

function stage(name: string, steps: [string, string[]][]): DeploymentStage {
  const all = steps.map(([step, needs]) => ({ id: `${name}-${step}`, step, needs }));
  return { name, kind: "stage", status: "pending", tries: 0, steps: all } as unknown as DeploymentStage;
}

test("layoutStages places stages and steps below their needs and parallel steps in one row", () => {
  const { stages, height } = layoutStages([
    stage("staging", [
      ["a", []],
      ["b", ["a"]],
      ["c", ["a"]],
    ]),
    stage("production", []),
  ]);
  const [first, second] = stages;
  const [a, b, c] = first?.steps ?? [];
  expect(second && first && second.y > first.y + first.height && second.width === first.width).toBe(true);
  expect(a && b && c && b.y > a.y + a.height && b.y === c.y).toBe(true);
  expect(b && c && (c.x >= b.x + b.width || b.x >= c.x + c.width)).toBe(true);
  expect(second && height === second.y + second.height).toBe(true);
  for (const step of first?.steps ?? []) {
    expect(step.x >= 0 && step.x + step.width <= (first?.width ?? 0)).toBe(true);
    expect(step.y + step.height <= (first?.height ?? 0)).toBe(true);
  }
});

test("layoutStages ignores a need that is not in the stage", () => {
  expect(layoutStages([stage("staging", [["b", ["gone"]]])]).stages[0]?.links).toEqual([]);
});
