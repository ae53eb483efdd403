import type { FailedDeployment } from "@/api/types";
import { useOrg } from "@/data/me";
import { CommitName } from "./commits/CommitLine";
import { Link } from "./Link";
import { RelativeTime } from "./RelativeTime";

/** A failed deployment in red: number, commit and age, as a link. */
export function FailedLink({ failed }: { failed: FailedDeployment }) {
  return (
    <Link
      to="/o/$org/deployments/$deploymentId"
      params={{ org: useOrg(), deploymentId: failed.deploymentId }}
      size="sm"
      c="var(--berth-bad)"
      underline="always"
    >
      #{failed.number} of <CommitName commitId={failed.commitId} commit={failed.commit} /> failed{" "}
      <RelativeTime at={failed.at} />
    </Link>
  );
}
