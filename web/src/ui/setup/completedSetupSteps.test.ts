import { expect, test } from "vitest";
import { completedSetupSteps } from "./completedSetupSteps";

const AT = "2026-01-01T00:00:00Z";
const NOTHING = { user: { passwordIsGenerated: true }, pipelines: [], repositories: [], tokens: [] };

test("a new organization has completed no step", () => {
  expect(completedSetupSteps(NOTHING)).toEqual({
    password: false,
    pipeline: false,
    repository: false,
    token: false,
  });
});

test("adding a repository is completed when it was synced", () => {
  expect(completedSetupSteps({ ...NOTHING, repositories: [{ lastSyncedAt: null }] }).repository).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, repositories: [{ lastSyncedAt: AT }] }).repository).toBe(true);
});

test("creating a token is completed when a valid token was used", () => {
  expect(
    completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: null }, { lastUsedAt: null }] }).token,
  ).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT, revokedAt: AT }] }).token).toBe(false);
  expect(completedSetupSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT }] }).token).toBe(true);
});
