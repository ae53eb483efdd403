import { expect, test } from "vitest";
import type { Deployment } from "@/api/types";
import { findDoubt, type KnownRefs, listDeployedRefs, listMissingRefs } from "./knownRefs";

const KNOWN: KnownRefs = {
  refs: ["main", "feature/dark", "release-1.4"].map(name => ({ name, detail: "" })),
  missing: ["feature/nope"],
};

test("a known branch, a new branch, a hash and an empty field are not doubted", () => {
  const names = [
    "main",
    " main ",
    "refs/heads/main",
    "feature/dark",
    "fix-login",
    "8a46ee3",
    "a".repeat(40),
    "",
  ];
  for (const name of names) expect(findDoubt(name, KNOWN), name).toBeNull();
});

test("a mistyped branch is doubted, and the known one suggested", () => {
  expect(findDoubt("feature/drak", KNOWN)).toEqual({ similar: "feature/dark", isMissing: false });
  expect(findDoubt("mian", KNOWN)).toEqual({ similar: "main", isMissing: false });
});

test("another version is not a mistyped one", () => {
  expect(findDoubt("release-1.5", KNOWN)).toBeNull();
});

test("a name that was not found before is doubted", () => {
  expect(findDoubt("feature/nope", KNOWN)).toEqual({ isMissing: true });
});

test("a name is missing if its newest deployment did not find it", () => {
  const deployment = (commitId: string, cause: string | null) => ({ commitId, cause }) as Deployment;
  const found = listMissingRefs([
    deployment("feature/nope", "commit_not_found"),
    deployment("feature/late", null),
    deployment("feature/late", "commit_not_found"),
    deployment("main", "step_failed"),
  ]);
  expect(found).toEqual(["feature/nope"]);
});

test("names that deployments resolved are known; names that they did not are not", () => {
  const deployment = (commitId: string, resolvedCommitId: string | null) =>
    ({ commitId, resolvedCommitId, commit: null }) as Deployment;
  const found = listDeployedRefs([
    deployment("feature/dark", "a".repeat(40)),
    deployment("feature/nope", null),
    deployment("b".repeat(40), "b".repeat(40)),
    deployment("feature/dark", "c".repeat(40)),
  ]);
  expect(found.map(each => each.name)).toEqual(["feature/dark"]);
});
