import { useNavigate } from "@tanstack/react-router";
import type { Way } from "@/ui/notify";

/** The way to a deployment that has just been asked for, if there is one. */
export function useWatch(org: string): (deploymentId: string | null | undefined) => Way | undefined {
  const navigate = useNavigate();
  return deploymentId =>
    deploymentId
      ? {
          words: "Watch it",
          go: () => navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId } }),
        }
      : undefined;
}
