import type { ApiToken, Me, Pipeline } from "@/api/types";

type SetupFacts = {
  user: Pick<Me["user"], "passwordIsGenerated">;
  pipelines: { stages: Pick<Pipeline["stages"][number], "current">[] }[];
  tokens: Pick<ApiToken, "lastUsedAt" | "revokedAt">[];
};

/** Which setup steps are completed: the first deployment counts once it succeeded, a token once it was used. */
export function completedSetupSteps({ user, pipelines, tokens }: SetupFacts) {
  return {
    password: !user.passwordIsGenerated,
    deployment: pipelines.some(pipeline => pipeline.stages.some(stage => stage.current)),
    token: tokens.some(each => each.lastUsedAt && !each.revokedAt),
  };
}
