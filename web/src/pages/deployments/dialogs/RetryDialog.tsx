import { Radio, Stack, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { useRetryStage } from "@/data/deployments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

type Props = { org: string; deployment: Deployment; stage: string; onClose: () => void };

/** Retries a failed stage. In an environment, that starts a new deployment. */
export function RetryDialog({ org, deployment, stage, onClose }: Props) {
  const retry = useRetryStage(org, deployment.id);
  const navigate = useNavigate();
  const inEnvironment = deployment.envName != null;
  const [from, setFrom] = useState<"failed" | "start">("failed");
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Retry ${stage}?`}
      action="Retry"
      mutation={retry}
      input={{ stage, from }}
      success={started => (inEnvironment ? `Deployment #${started.number} started` : `Retrying ${stage}`)}
      onSuccess={({ id }) =>
        inEnvironment &&
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Text size="sm">
        {inEnvironment
          ? "Starts a new deployment of the same commit in your session, with the current definition and secrets. All steps run again."
          : "Uses the same commit, definition and secret versions as before. Later stages follow."}
      </Text>
      {deployment.bypass && (
        <Text size="sm" c="var(--berth-warn)">
          This deployment bypasses deployment windows and approvals, and so does the retry. The audit log
          records it.
        </Text>
      )}
      {!inEnvironment && (
        <Radio.Group
          label="Steps to run"
          value={from}
          onChange={value => setFrom(value === "start" ? "start" : "failed")}
        >
          <Stack gap={6} mt={6}>
            <Radio value="failed" label="Steps that did not succeed" data-autofocus />
            <Radio value="start" label="All steps of the stage" />
          </Stack>
        </Radio.Group>
      )}
    </ConfirmDialog>
  );
}
