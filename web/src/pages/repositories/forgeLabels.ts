import type { ForgeName } from "@/api/types";

export const FORGE_LABELS: Record<ForgeName, string> = {
  github: "GitHub",
  gitlab: "GitLab",
  gitea: "Gitea",
  bitbucket: "Bitbucket",
};
