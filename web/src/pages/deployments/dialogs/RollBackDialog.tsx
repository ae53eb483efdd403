import { List, Select, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { recentDeploymentsQuery, useRollBackStage } from "@/data/deployments";
import { formatCommit } from "@/format/commit";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = {
  org: string;
  deployment: Deployment;
  /** The stages that the user may roll back. */
  stages: string[];
  onClose: () => void;
};

/** Rolls back a stage to an earlier deployment. */
export function RollBackDialog({ org, deployment, stages, onClose }: Props) {
  const navigate = useNavigate();
  const rollBack = useRollBackStage(org, deployment.id);
  const recent = useQuery(recentDeploymentsQuery(org, deployment.pipelineId));
  const [stage, setStage] = useState(stages.at(-1) ?? "");
  const [to, setTo] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const good = (recent.data?.data ?? []).filter(
    each =>
      each.id !== deployment.id &&
      each.stages.some(
        other => other.name === stage && other.kind === "stage" && other.status === "succeeded",
      ),
  );
  const hasNoTarget = recent.data?.pagination.hasMore === false && good.length === 0;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Roll back ${stage}?`}
      action={`Roll back ${stage}`}
      danger
      mutation={rollBack}
      disabled={stage === "" || hasNoTarget}
      input={{ stage, to: to ?? undefined, reason: reason.trim() || undefined }}
      success={({ number }) => `Rollback of ${stage} started as deployment #${number}`}
      onSuccess={({ id }) =>
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Select
        label="Stage"
        data={stages}
        value={stage}
        allowDeselect={false}
        onChange={value => {
          setStage(value ?? "");
          setTo(null);
        }}
      />
      <Select
        label="Roll back to"
        placeholder="Last successful deployment"
        clearable
        clearButtonProps={{ "aria-label": "Clear selection" }}
        value={to}
        onChange={setTo}
        data={good.map(each => ({
          value: each.id,
          label: `#${each.number}  ${formatCommit(each.resolvedCommitId ?? each.commitId)}${each.reason ? `  ${each.reason}` : ""}`,
        }))}
        nothingFoundMessage="No other recent deployment succeeded in this stage"
      />
      {hasNoTarget && (
        <Text size="sm" c="var(--berth-warn)">
          No other deployment has succeeded in {stage}. Deploy an earlier commit instead.
        </Text>
      )}
      <List size="sm" spacing={4}>
        <List.Item>
          Redeploys the commit, artifacts, definition and secrets of{" "}
          {to ? "that deployment" : "the last successful deployment"} to {stage}. Nothing is rebuilt.
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
      {recent.isError && (
        <Text size="xs" c="dimmed">
          Could not list earlier deployments. The server will use the last successful one.
        </Text>
      )}
    </ConfirmDialog>
  );
}

/** Stages that this deployment has entered. */
export function enteredStages(deployment: Deployment): string[] {
  return deployment.stages.filter(each => each.kind === "stage" && each.tries > 0).map(each => each.name);
}
