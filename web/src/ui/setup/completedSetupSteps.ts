import type { ApiToken, Me, Pipeline, Repository } from "@/api/types";

type SetupFacts = {
  user: Pick<Me["user"], "passwordIsGenerated">;
  pipelines: { stages: Pick<Pipeline["stages"][number], "current">[] }[];
  repositories: Pick<Repository, "lastSyncedAt">[];
  tokens: Pick<ApiToken, "lastUsedAt" | "revokedAt">[];
};

/** Which setup steps are completed: a repository counts once it was synced, a token once it was used. */
export function completedSetupSteps({ user, pipelines, repositories, tokens }: SetupFacts) {
  const isDeployed = pipelines.some(pipeline => pipeline.stages.some(stage => stage.current));
  return {
    password: !user.passwordIsGenerated,
    pipeline: pipelines.length > 0,
    repository: isDeployed || repositories.some(each => each.lastSyncedAt),
    token: tokens.some(each => each.lastUsedAt && !each.revokedAt),
  };
}
