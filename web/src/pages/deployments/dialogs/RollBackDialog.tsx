import { List, Select, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { recentDeploymentsQuery, useRollBack } from "@/data/deployments";
import { shortCommit } from "@/format/commit";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { org: string; deployment: Deployment; onClose: () => void };

/** Puts a stage back to what an earlier deployment left there. Says what will happen before it does. */
export function RollBackDialog({ org, deployment, onClose }: Props) {
  const navigate = useNavigate();
  const rollBack = useRollBack(org, deployment.id);
  const recent = useQuery(recentDeploymentsQuery(org, deployment.pipelineId));
  const entered = enteredStages(deployment);
  const [stage, setStage] = useState(entered.at(-1) ?? "");
  const [to, setTo] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const good = (recent.data?.data ?? []).filter(
    each =>
      each.id !== deployment.id &&
      each.stages.some(
        other => other.name === stage && other.kind === "stage" && other.status === "succeeded",
      ),
  );
  return (
    <Confirm
      onClose={onClose}
      title={`Roll back ${stage}?`}
      action={`Roll back ${stage}`}
      danger
      mutation={rollBack}
      disabled={stage === ""}
      input={{ stage, to: to ?? undefined, reason: reason.trim() || undefined }}
      success={({ number }) => `Deployment #${number} takes ${stage} back.`}
      onSuccess={({ id }) =>
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Select
        label="Stage"
        data={entered}
        value={stage}
        allowDeselect={false}
        onChange={value => {
          setStage(value ?? "");
          setTo(null);
        }}
      />
      <Select
        label="Back to"
        placeholder="the last good one"
        clearable
        clearButtonProps={{ "aria-label": "The last good one" }}
        value={to}
        onChange={setTo}
        data={good.map(each => ({
          value: each.id,
          label: `#${each.number}  ${shortCommit(each.resolvedCommitId ?? each.commitId)}${each.reason ? `  ${each.reason}` : ""}`,
        }))}
        nothingFoundMessage="No other deployment has succeeded here lately"
      />
      <List size="sm" spacing={4}>
        <List.Item>
          {stage} gets {to ? "that deployment’s" : "the last good"} commit again, with the artifacts,
          definition and secrets of then. Nothing is built.
        </List.Item>
        <List.Item>
          What is inside {stage} now ends first. No window holds it, and approvals of then count.
        </List.Item>
        <List.Item>
          Nothing newer comes into {stage} until somebody resumes the pipeline. Earlier stages go on.
        </List.Item>
      </List>
      <ReasonField data-autofocus value={reason} onChange={setReason} />
      {recent.isError && (
        <Text size="xs" c="dimmed">
          The earlier deployments could not be listed; the last good one is found by the server.
        </Text>
      )}
    </Confirm>
  );
}

/** The stages that this deployment was let into. */
export function enteredStages(deployment: Deployment): string[] {
  return deployment.stages.filter(each => each.kind === "stage" && each.tries > 0).map(each => each.name);
}
