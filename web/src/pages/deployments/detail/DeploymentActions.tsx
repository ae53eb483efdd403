import { Button } from "@mantine/core";
import {
  IconArrowBackUp,
  IconBan,
  IconExternalLink,
  IconRefresh,
  IconRepeat,
  IconRocket,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployment, Pipeline, Session } from "@/api/types";
import { mayOperate, stageTargets } from "@/data/deploymentAccess";
import { recentDeploymentsQuery } from "@/data/deployments";
import { sessionQuery } from "@/data/environments";
import { useAccess, useMe } from "@/data/me";
import { environmentTarget, may } from "@/data/permissions";
import { siteUrl } from "@/data/siteUrl";
import { isFinished } from "@/format/run";
import { CancelDialog } from "../dialogs/CancelDialog";
import { DeployCommitDialog, RedeployInSessionDialog } from "../dialogs/DeployCommitDialog";
import { RetryDialog } from "../dialogs/RetryDialog";
import { RollBackDialog } from "../dialogs/RollBackDialog";
import { enteredStages, rollbackTargets } from "../dialogs/rollbackTargets";

type Props = { org: string; deployment: Deployment; pipeline: Pipeline | undefined };

/** The open dialog. It keeps its stage or session, because a successful action removes them from the actions. */
type OpenDialog =
  | { of: "cancel" | "deploy" | "rollback" }
  | { of: "retry"; stage: string }
  | { of: "redeploy"; session: Pick<Session, "id" | "envName"> };

/** The actions that the user may take on a deployment in its current state. */
export function DeploymentActions({ org, deployment, pipeline }: Props) {
  const [open, setOpen] = useState<OpenDialog | null>(null);
  const actions = useDeploymentActions({ org, deployment, pipeline });
  const { recent, revertible, retried, session, site } = actions;
  const close = () => setOpen(null);
  const isPromotion = deployment.envName != null;
  return (
    <>
      {retried && (
        <Button
          leftSection={<IconRefresh size={16} />}
          onClick={() => setOpen({ of: "retry", stage: retried })}
        >
          Retry failed
        </Button>
      )}
      {(session || (actions.mayStart && !isPromotion)) && (
        <Button
          variant="default"
          leftSection={<IconRepeat size={16} />}
          onClick={() => setOpen(session ? { of: "redeploy", session } : { of: "deploy" })}
        >
          Redeploy
        </Button>
      )}
      {actions.mayStart && isPromotion && deployment.status === "succeeded" && (
        <Button
          variant="default"
          leftSection={<IconRocket size={16} />}
          onClick={() => setOpen({ of: "deploy" })}
        >
          Promote
        </Button>
      )}
      {revertible.length > 0 && (
        <Button
          variant="default"
          leftSection={<IconArrowBackUp size={16} />}
          onClick={() => setOpen({ of: "rollback" })}
        >
          Roll back
        </Button>
      )}
      {actions.mayCancel && (
        <Button
          variant="default"
          leftSection={<IconBan size={16} />}
          onClick={() => setOpen({ of: "cancel" })}
        >
          Cancel
        </Button>
      )}
      {site && (
        <Button
          variant="default"
          component="a"
          href={site}
          target="_blank"
          rel="noopener noreferrer"
          rightSection={<IconExternalLink size={16} aria-hidden />}
        >
          Open site
        </Button>
      )}
      {open?.of === "cancel" && <CancelDialog org={org} deployment={deployment} onClose={close} />}
      {open?.of === "retry" && (
        <RetryDialog org={org} deployment={deployment} stage={open.stage} onClose={close} />
      )}
      {open?.of === "deploy" && pipeline && (
        <DeployCommitDialog org={org} deployment={deployment} pipeline={pipeline} onClose={close} />
      )}
      {open?.of === "redeploy" && (
        <RedeployInSessionDialog
          org={org}
          deployment={deployment}
          pipelineId={deployment.pipelineId}
          envName={open.session.envName}
          sessionId={open.session.id}
          onClose={close}
        />
      )}
      {open?.of === "rollback" && (
        <RollBackDialog
          org={org}
          deployment={deployment}
          recent={recent}
          stages={revertible}
          onClose={close}
        />
      )}
    </>
  );
}

function useDeploymentActions({ org, deployment, pipeline }: Props) {
  const access = useAccess();
  const { demo, user } = useMe();
  const { envName, sessionId, pipelineId, status, trigger } = deployment;
  const finished = isFinished(status);
  const failed = deployment.stages.find(each => each.status === "failed")?.name;
  const mayDeploy = stageTargets(pipeline).every(stage => may(access, "stages:deploy", stage));
  const mayBypass = stageTargets(pipeline).every(stage => may(access, "gates:bypass", stage));
  // A reset has no session to retry it in.
  const mayRetry =
    failed !== undefined &&
    trigger !== "reset" &&
    (!deployment.bypass || mayBypass) &&
    mayOperate(access, deployment, pipeline, { from: failed });

  const entered = enteredStages(deployment).filter(stage =>
    mayOperate(access, deployment, pipeline, { only: stage }),
  );
  const recent = useQuery({
    ...recentDeploymentsQuery(org, pipelineId),
    enabled: entered.length > 0,
  }).data?.data;
  const revertible = entered.filter(stage => recent && rollbackTargets(recent, deployment, stage).length > 0);

  const hasCommit = deployment.cause !== "commit_not_found";
  const isRepeatable = finished && hasCommit && trigger !== "reset" && !deployment.isUntrusted;
  const where = { org, pipelineId, envName: envName ?? "" };
  const session = useQuery({
    ...sessionQuery(where, sessionId ?? ""),
    enabled: finished && envName != null && sessionId != null,
  }).data;
  const isMine = session?.holdsLock && session.holder.id === user.id;
  const mayStop =
    mayOperate(access, deployment, pipeline, "all") &&
    (envName == null ||
      deployment.actor.id === user.id ||
      may(access, "environments:release_others", environmentTarget(pipeline?.slug, envName)));
  return {
    // The session of a deployment in an environment may have ended.
    retried: mayRetry && (envName == null || session?.holdsLock) ? failed : undefined,
    recent: recent ?? [],
    revertible,
    session: isRepeatable && isMine ? session : undefined,
    /** Whether the commit can be deployed through the stages. */
    mayStart: isRepeatable && mayDeploy && pipeline && pipeline.stages.length > 0 && !pipeline.retiredAt,
    mayCancel: !finished && status !== "cancelling" && mayStop,
    site: siteUrl(deployment, pipeline?.slug, demo),
  };
}
