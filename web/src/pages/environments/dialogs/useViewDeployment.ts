import { useNavigate } from "@tanstack/react-router";
import { addStartedDeployment } from "@/data/startedDeployments";
import type { ToastAction } from "@/ui/toast";

/** Returns the toast action that opens a new deployment. Another toast reports it if it fails. */
export function useViewDeployment(
  org: string,
): (deploymentId: string | null | undefined) => ToastAction | undefined {
  const navigate = useNavigate();
  return deploymentId => {
    if (!deploymentId) return undefined;
    addStartedDeployment(deploymentId);
    return {
      label: "View deployment",
      onClick: () => navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId } }),
    };
  };
}
