import { List, Select, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { deploymentCommit } from "@/data/deploymentCommit";
import { useRollBackStage } from "@/data/deployments";
import { formatCommit } from "@/format/commit";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitName } from "@/ui/commits/CommitLine";
import { ReasonField } from "@/ui/fields/ReasonField";
import { defaultRollbackTarget, rollbackTargets } from "./rollbackTargets";

type Props = {
  org: string;
  deployment: Deployment;
  /** Recent deployments of the pipeline, newest first. */
  recent: Deployment[];
  /** The stages that the user may roll back and that have a target. */
  stages: string[];
  onClose: () => void;
};

/** Rolls back a stage to an earlier deployment. */
export function RollBackDialog({ org, deployment, recent, stages, onClose }: Props) {
  const navigate = useNavigate();
  const rollBack = useRollBackStage(org, deployment.id);
  const [stage, setStage] = useState(stages.at(-1) ?? "");
  const [chosen, setChosen] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const targets = rollbackTargets(recent, deployment, stage);
  const to =
    targets.find(each => each.id === chosen) ??
    defaultRollbackTarget(recent, deployment, stage) ??
    targets[0];
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Roll back ${stage}?`}
      action={`Roll back ${stage}`}
      danger
      mutation={rollBack}
      disabled={stage === ""}
      input={to ? { stage, to: to.id, reason: reason.trim() || undefined } : null}
      success={({ number }) => `Rollback of ${stage} started as deployment #${number}`}
      onSuccess={({ id }) =>
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      {stages.length > 1 && (
        <Select
          label="Stage"
          data={stages}
          value={stage}
          allowDeselect={false}
          onChange={value => {
            setStage(value ?? "");
            setChosen(null);
          }}
        />
      )}
      <Select
        label="Roll back to"
        allowDeselect={false}
        value={to?.id ?? null}
        onChange={setChosen}
        data={targets.map(each => ({ value: each.id, label: formatTarget(each) }))}
      />
      {to && (
        <Text size="sm" className="wrap">
          Redeploys <TargetCommit of={to} /> to {stage}, in place of <TargetCommit of={deployment} />.
        </Text>
      )}
      <List size="sm" spacing={4}>
        <List.Item>
          The artifacts, definition and secret versions of that deployment are used again. Nothing is rebuilt.
        </List.Item>
        <List.Item>
          It starts when the deployment in {stage} has ended. Deployment windows don’t apply, and earlier
          approvals count.
        </List.Item>
        <List.Item>
          New deployments to {stage} are paused until you resume the pipeline. Earlier stages continue.
        </List.Item>
      </List>
      <ReasonField data-autofocus value={reason} onChange={setReason} />
    </ConfirmDialog>
  );
}

function formatTarget(deployment: Deployment): string {
  const { commitId, commit } = deploymentCommit(deployment);
  const words = [`#${deployment.number}`, formatCommit(commitId), commit?.title ?? deployment.reason];
  return words.filter(Boolean).join(" · ");
}

function TargetCommit({ of }: { of: Deployment }) {
  const { commitId, commit } = deploymentCommit(of);
  return (
    <>
      <CommitName commitId={commitId} commit={commit} />
      {commit && ` (${formatCommit(commitId)})`}
    </>
  );
}
