import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployed, Deployment } from "@/api/types";
import { mayOperate } from "@/data/deploymentAccess";
import { deploymentsWithStatusQuery } from "@/data/deployments";
import { useAccess, useMe, useOrg } from "@/data/me";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link, LinkButton } from "@/ui/Link";
import { StatusIcon } from "@/ui/StatusBadge";
import { type Failure, formatFailureCause, formatPlace, listFailures } from "./failures";
import { HomeSection } from "./HomeSection";
import classes from "./home.module.css";
import { useOpenDialog } from "./OpenDialog";

const SHOWN_MAX = 5;

/** Failed deployments that no later one has replaced, with the cause. */
export function FailingSection({ pipelines }: { pipelines: Deployed[] }) {
  const org = useOrg();
  const failures = listFailures(pipelines);
  const [showsAll, setShowsAll] = useState(false);
  const failed = useQuery({ ...deploymentsWithStatusQuery(org, "failed"), enabled: failures.length > 0 });
  if (failures.length === 0) return null;
  const byId = new Map(failed.data?.data.map(each => [each.id, each]));
  const more = failures.length - SHOWN_MAX;
  return (
    <HomeSection title="Failing" count={failures.length} tone="bad">
      {failures.slice(0, showsAll ? undefined : SHOWN_MAX).map(each => (
        <FailureRow
          key={each.failed.deploymentId + (each.stage ?? each.environment?.environmentId ?? "")}
          failure={each}
          deployment={byId.get(each.failed.deploymentId)}
        />
      ))}
      {more > 0 && !showsAll && (
        <div className={classes.more}>
          <Button size="compact-sm" variant="subtle" onClick={() => setShowsAll(true)}>
            Show {more} more
          </Button>
        </div>
      )}
    </HomeSection>
  );
}

type Props = { failure: Failure; deployment: Deployment | undefined };

function FailureRow({ failure, deployment }: Props) {
  const { failed } = failure;
  const org = useOrg();
  const open = useOpenDialog();
  const params = { org, deploymentId: failed.deploymentId };
  const place = formatPlace(failure);
  const mayRetry = useMayRetry(failure);
  return (
    <div className={classes.item}>
      <StatusIcon status={RUN_STATUS_STYLE.failed} size={16} title="failed" />
      <span className={classes.fact}>
        <Link to="/o/$org/deployments/$deploymentId" params={params} className={classes.failed}>
          {place} #{failed.number}
        </Link>
        <CommitLine commitId={failed.commitId} commit={failed.commit} at={failed.at} />
        {!failed.commit && <span className={classes.quiet}>by {failed.by.name}</span>}
        <span className={classes.cause}>{formatFailureCause(deployment)}</span>
      </span>
      <span className={classes.actions}>
        <LinkButton
          to="/o/$org/deployments/$deploymentId"
          params={params}
          size="compact-sm"
          variant="default"
          aria-label={`Log of ${place} #${failed.number}`}
        >
          Log
        </LinkButton>
        {mayRetry && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Retry ${place} #${failed.number}`}
            onClick={() => open({ kind: "retry", deploymentId: failed.deploymentId })}
          >
            Retry
          </Button>
        )}
      </span>
    </div>
  );
}

/** A failed stage can be retried by deployers; a deployment in an environment by its holder, in the same session. */
function useMayRetry({ pipeline, stage, environment, failed }: Failure): boolean {
  const access = useAccess();
  const me = useMe().user.id;
  const envName = environment?.envName ?? null;
  if (!mayOperate(access, { envName }, pipeline, stage ? { from: stage } : "all")) return false;
  if (!environment) return true;
  const { holder, heldSince } = environment;
  return holder?.id === me && heldSince != null && failed.at > heldSince;
}
