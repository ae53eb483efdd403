/** What a deployment deploys. */
import type { Commit, Deployment } from "@/api/types";

type Fields = Pick<Deployment, "commitId" | "resolvedCommitId" | "commit" | "compareUrl">;

type DeployedCommit = {
  commitId: string;
  commit: Commit | null;
  compareUrl: string | null;
  /** The branch or tag that was deployed, if the commit was resolved from one. */
  branch: string | null;
};

export function deploymentCommit(deployment: Fields): DeployedCommit {
  const { commitId, resolvedCommitId, commit, compareUrl } = deployment;
  const isHash = /^[0-9a-f]{7,64}$/i.test(commitId);
  return {
    commitId: resolvedCommitId ?? commitId,
    commit: commit ?? null,
    compareUrl: compareUrl ?? null,
    branch: isHash || (!resolvedCommitId && !commit) ? null : commitId,
  };
}
