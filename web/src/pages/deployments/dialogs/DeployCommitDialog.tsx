import { Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment, Pipeline } from "@/api/types";
import { deploymentCommit } from "@/data/deploymentCommit";
import { useStartDeployment } from "@/data/deployments";
import { useDeployToEnvironment } from "@/data/environments";
import { formatCommit } from "@/format/commit";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitName } from "@/ui/commits/CommitLine";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { org: string; deployment: Deployment; onClose: () => void };

function useOpenDeployment(org: string) {
  const navigate = useNavigate();
  return ({ id }: { id: string }) =>
    navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } });
}

/** Deploys the commit of a deployment through the stages: again, or for the first time after an environment. */
export function DeployCommitDialog({ org, deployment, onClose, pipeline }: Props & { pipeline: Pipeline }) {
  const open = useOpenDeployment(org);
  const start = useStartDeployment(org, pipeline.slug);
  const [reason, setReason] = useState("");
  const { commitId, commit } = deploymentCommit(deployment);
  const isPromotion = deployment.envName != null;
  const verb = isPromotion ? "Promote" : "Redeploy";
  return (
    <ConfirmDialog
      onClose={onClose}
      title={isPromotion ? `Promote ${formatCommit(commitId)}?` : `Redeploy #${deployment.number}?`}
      action={verb}
      mutation={start}
      input={{ commitId, reason: reason.trim() || undefined }}
      success={({ number }) => `Deployment #${number} started`}
      onSuccess={open}
    >
      <Text size="sm" className="wrap">
        Deploys <CommitName commitId={commitId} commit={commit} /> to{" "}
        {pipeline.stages.map(stage => stage.name).join(", then ")}, with the current definition and secrets.
        Approvals and deployment windows apply.
      </Text>
      <ReasonField data-autofocus value={reason} onChange={setReason} />
    </ConfirmDialog>
  );
}

type SessionProps = Props & { pipelineId: string; envName: string; sessionId: string };

/** Deploys the commit of a deployment once more in its session. */
export function RedeployInSessionDialog(props: SessionProps) {
  const { org, deployment, pipelineId, envName, sessionId, onClose } = props;
  const open = useOpenDeployment(org);
  const deploy = useDeployToEnvironment({ org, pipelineId, envName }, sessionId);
  const { commitId, commit } = deploymentCommit(deployment);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Redeploy #${deployment.number} to ${envName}?`}
      action="Redeploy"
      mutation={deploy}
      input={{ commitId }}
      success={({ number }) => `Deployment #${number} started`}
      onSuccess={open}
    >
      <Text size="sm" className="wrap">
        Deploys <CommitName commitId={commitId} commit={commit} /> in your session, with the current
        definition and secrets.
      </Text>
    </ConfirmDialog>
  );
}
