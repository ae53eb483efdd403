import { useNavigate } from "@tanstack/react-router";
import type { ToastAction } from "@/ui/toast";

/** Returns the toast action that opens a new deployment. */
export function useViewDeployment(
  org: string,
): (deploymentId: string | null | undefined) => ToastAction | undefined {
  const navigate = useNavigate();
  return deploymentId =>
    deploymentId
      ? {
          label: "View deployment",
          onClick: () => navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId } }),
        }
      : undefined;
}
