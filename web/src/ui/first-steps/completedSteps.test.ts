import { expect, test } from "vitest";
import { completedSteps } from "./completedSteps";

const AT = "2026-01-01T00:00:00Z";
const NOTHING = { user: { passwordIsGenerated: true }, pipelines: [], repositories: [], tokens: [] };

test("a new organization has completed no step", () => {
  expect(completedSteps(NOTHING)).toEqual({
    password: false,
    pipeline: false,
    repository: false,
    token: false,
  });
});

test("adding a repository is completed when it was synced", () => {
  expect(completedSteps({ ...NOTHING, repositories: [{ lastSyncedAt: null }] }).repository).toBe(false);
  expect(completedSteps({ ...NOTHING, repositories: [{ lastSyncedAt: AT }] }).repository).toBe(true);
});

test("creating a token is completed when a valid token was used", () => {
  expect(completedSteps({ ...NOTHING, tokens: [{ lastUsedAt: null }, { lastUsedAt: null }] }).token).toBe(
    false,
  );
  expect(completedSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT, revokedAt: AT }] }).token).toBe(false);
  expect(completedSteps({ ...NOTHING, tokens: [{ lastUsedAt: AT }] }).token).toBe(true);
});
