import { expect, test } from "vitest";
import { completedDemoSteps, DEMO_STEPS, type DemoFacts } from "./demo";

const ADA = { id: "usr_ada", name: "ada" };
const GRACE = { id: "usr_grace", name: "Grace" };

const NOTHING: DemoFacts = { succeeded: [], overridden: [], voted: [], proposed: [], opened: [] };

function succeeded(
  id: string,
  by: typeof ADA,
  more: Partial<DemoFacts["succeeded"][number]> = {},
): DemoFacts["succeeded"] {
  return [{ id, envName: null, actor: { type: "user", tokenId: null, ...by }, trigger: "session", ...more }];
}

function about(type: string, id: string) {
  return [
    {
      subjects: [
        { type: "pipeline", id: "pl_1", name: null },
        { type, id, name: null },
      ],
    },
  ];
}

function check(facts: Partial<DemoFacts>): string[] {
  const done = completedDemoSteps({ ...NOTHING, ...facts }, ADA);
  return DEMO_STEPS.filter((_, at) => done[at]);
}

test("no step is completed at first", () => {
  expect(check({})).toEqual([]);
});

test("claiming is completed when the user's deployment to qa-2 has succeeded", () => {
  expect(check({ succeeded: succeeded("dep_1", ADA, { envName: "qa-2" }) })).toEqual(["claimed"]);
  expect(check({ succeeded: succeeded("dep_1", ADA, { envName: "qa-1" }) })).toEqual([]);
  expect(check({ succeeded: succeeded("dep_1", GRACE, { envName: "qa-2" }) })).toEqual([]);
});

test("taking over is completed when the user has ended a session, also by a scheduled takeover", () => {
  expect(check({ overridden: [{ data: { endedBy: "ada" } }] })).toEqual(["takenOver"]);
  expect(check({ overridden: [{ data: { endedBy: "Linus" } }] })).toEqual([]);
});

test("approving is completed when the approved deployment has succeeded", () => {
  const voted = about("deployment", "dep_green");
  expect(check({ voted })).toEqual([]);
  expect(check({ voted, succeeded: succeeded("dep_other", GRACE) })).toEqual([]);
  expect(check({ voted, succeeded: succeeded("dep_green", GRACE, { trigger: "push" }) })).toEqual([
    "approved",
  ]);
});

test("rolling back is completed when the user's rollback has succeeded", () => {
  expect(check({ succeeded: succeeded("dep_3", ADA, { trigger: "api" }) })).toEqual([]);
  expect(check({ succeeded: succeeded("dep_3", GRACE, { trigger: "rollback" }) })).toEqual([]);
  expect(check({ succeeded: succeeded("dep_3", ADA, { trigger: "rollback" }) })).toEqual(["rolledBack"]);
});

test("fixing is completed when the branch of the user's fix is pushed", () => {
  const proposed = about("analysis", "anl_1");
  expect(check({ proposed })).toEqual([]);
  expect(check({ opened: proposed })).toEqual([]);
  expect(check({ proposed, opened: about("analysis", "anl_2") })).toEqual([]);
  expect(check({ proposed, opened: about("analysis", "anl_1") })).toEqual(["fixed"]);
});
