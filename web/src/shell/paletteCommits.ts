import type { Deployment } from "@/api/types";
import { formatCommit } from "@/format/commit";

/** A commit in the command palette, with the newest of its deployments. */
export type PaletteCommit = {
  id: string;
  title: string;
  description: string;
  keywords: string[];
  deploymentId: string;
};

/** Lists the commits of these deployments, which are sorted newest first. Each is listed once, if its title is known. */
export function listPaletteCommits(deployments: Deployment[]): PaletteCommit[] {
  const found = new Map<string, PaletteCommit>();
  for (const { id, commitId, commit } of deployments) {
    if (!commit?.title || found.has(commit.commitId)) continue;
    found.set(commit.commitId, {
      id: `commit ${commit.commitId}`,
      title: commit.title,
      description: `${formatCommit(commit.commitId)} by ${commit.author.name}`,
      keywords: [commit.commitId, commitId],
      deploymentId: id,
    });
  }
  return [...found.values()];
}

/** Joins lists of deployments that are sorted newest first. */
export function joinDeployments(...lists: Deployment[][]): Deployment[] {
  const byId = new Map(lists.flat().map(each => [each.id, each]));
  return [...byId.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}
