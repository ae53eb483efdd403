import { expect, test } from "vitest";
import type { Deployment } from "@/api/types";
import { joinDeployments, listPaletteCommits } from "./paletteCommits";

const GREEN = { commitId: "4d6d0ebeafea6a1b", title: "Make the shop green", author: { name: "Ada" } };
const deployment = (id: string, createdAt: string, commitId: string, commit: object | null = null) =>
  ({ id, createdAt, commitId, commit }) as Deployment;

const NEWER = deployment("dep_2", "2026-11-19T03:00:00Z", "main", GREEN);
const OLDER = deployment("dep_1", "2026-11-19T02:00:00Z", GREEN.commitId, GREEN);
const UNKNOWN = deployment("dep_3", "2026-11-19T01:00:00Z", "feature/nope");

test("a commit is listed once, with its newest deployment, and only if its title is known", () => {
  expect(listPaletteCommits([NEWER, OLDER, UNKNOWN])).toEqual([
    {
      id: "commit 4d6d0ebeafea6a1b",
      title: "Make the shop green",
      description: "4d6d0ebeafea6a1b by Ada",
      keywords: ["4d6d0ebeafea6a1b", "main"],
      deploymentId: "dep_2",
    },
  ]);
});

test("joined lists have each deployment once, newest first", () => {
  const ids = joinDeployments([OLDER], [UNKNOWN, NEWER, OLDER]).map(each => each.id);
  expect(ids).toEqual(["dep_2", "dep_1", "dep_3"]);
});
