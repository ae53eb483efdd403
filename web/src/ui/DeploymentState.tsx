import type { DeployedEnvironment } from "@/api/types";
import { useOrg } from "@/data/me";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { Link } from "./Link";
import { StatusText } from "./StatusBadge";

type Props = { environment: Pick<DeployedEnvironment, "deploying" | "failed"> };

/** What is being deployed to an environment, and the newest deployment if it failed. */
export function DeploymentState({ environment: { deploying, failed } }: Props) {
  const org = useOrg();
  return (
    <>
      {deploying && <StatusText status={RUN_STATUS_STYLE.running} label={`deploying ${deploying}`} />}
      {failed && (
        <Link
          to="/o/$org/deployments/$deploymentId"
          params={{ org, deploymentId: failed.deploymentId }}
          underline="hover"
          inherit
        >
          <StatusText status={RUN_STATUS_STYLE.failed} label={`#${failed.number} failed`} />
        </Link>
      )}
    </>
  );
}
