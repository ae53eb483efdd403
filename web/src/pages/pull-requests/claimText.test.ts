import { expect, test } from "vitest";
import type { PullRequestClaim } from "@/api/types";
import { formatClaim, formatOrdinal, formatRepositoryOf } from "./claimText";

const NOW = new Date("2026-11-18T14:00:00").getTime();

const CLAIM: PullRequestClaim = {
  pipeline: { id: "pl_1", slug: "shop", name: "Shop" },
  environment: { id: "env_1", name: "qa-1" },
  state: "queued",
  position: 2,
  etaSeconds: 725,
  sessionId: null,
  fence: null,
  expiresAt: null,
  deployment: null,
};

test.each([
  [1, "1st"],
  [2, "2nd"],
  [3, "3rd"],
  [4, "4th"],
  [11, "11th"],
  [12, "12th"],
  [13, "13th"],
  [22, "22nd"],
  [111, "111th"],
])("position %i is the %s", (number, text) => {
  expect(formatOrdinal(number)).toBe(text);
});

test("queued claim shows position and estimate", () => {
  expect(formatClaim(CLAIM, NOW)).toBe("2nd in queue for qa-1, about 12 min");
  expect(formatClaim({ ...CLAIM, etaSeconds: null }, NOW)).toBe("2nd in queue for qa-1");
});

test("held claim shows when the session expires", () => {
  const held = { ...CLAIM, state: "held", position: null, etaSeconds: null } as const;
  const expiresAt = new Date("2026-11-18T16:00:00").toISOString();
  expect(formatClaim({ ...held, expiresAt }, NOW)).toBe("qa-1 until 16:00");
  expect(formatClaim(held, NOW)).toBe("qa-1");
});

test("stopped claim names the environment", () => {
  expect(formatClaim({ ...CLAIM, state: "stopped" }, NOW)).toBe("stopped in qa-1");
});

test.each([
  ["https://github.com/acme/shop/pull/42", "acme/shop"],
  ["https://gitlab.com/acme/web/shop/-/merge_requests/42", "acme/web/shop"],
  ["https://git.acme.test/acme/shop/pulls/42", "acme/shop"],
  ["https://bitbucket.org/acme/shop/pull-requests/42", "acme/shop"],
])("%s belongs to %s", (url, repository) => {
  expect(formatRepositoryOf(url)).toBe(repository);
});
