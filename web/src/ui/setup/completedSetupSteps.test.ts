import { expect, test } from "vitest";
import { completedSetupSteps } from "./completedSetupSteps";

const AT = "2026-01-01T00:00:00Z";
const NOTHING = { user: { passwordIsGenerated: true }, pipelines: [], tokens: [] };

test("a new organization has completed no step", () => {
  expect(completedSetupSteps(NOTHING)).toEqual({
    password: false,
    deployment: false,
    token: false,
  });
});

test("the first deployment is completed when a stage runs something", () => {
  const pipelines = (current: object | null) => [{ stages: [{ current }] }] as never;
  expect(completedSetupSteps({ ...NOTHING, pipelines: pipelines(null) }).deployment).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, pipelines: pipelines({}) }).deployment).toBe(true);
});

test("creating a token is completed when a valid token was used", () => {
  expect(
    completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: null }, { lastUsedAt: null }] }).token,
  ).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT, revokedAt: AT }] }).token).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT }] }).token).toBe(true);
});
