import { Radio, Stack, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { useRetry } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";

type Props = { org: string; deployment: Deployment; stage: string; onClose: () => void };

/** Runs a failed stage once more. In an environment that is a new deployment. */
export function RetryDialog({ org, deployment, stage, onClose }: Props) {
  const retry = useRetry(org, deployment.id);
  const navigate = useNavigate();
  const inEnvironment = deployment.envName != null;
  const [from, setFrom] = useState<"failed" | "start">("failed");
  return (
    <Confirm
      onClose={onClose}
      title={`Retry ${stage}?`}
      action="Retry"
      mutation={retry}
      input={{ stage, from }}
      success={started =>
        inEnvironment
          ? `Deployment #${started.number} retries #${deployment.number}.`
          : `${stage} is tried again.`
      }
      onSuccess={({ id }) =>
        inEnvironment &&
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Text size="sm">
        {inEnvironment
          ? "Starts a new deployment of the same commit in your session, with the present definition and secrets. Every step runs again."
          : "With the same commit, definition and versions of secrets as before. Earlier attempts stay to be read, and the stages after it follow."}
      </Text>
      {deployment.bypass && (
        <Text size="sm" c="var(--berth-warn)">
          This deployment passes windows and approvals; so does its retry, and that is recorded.
        </Text>
      )}
      {!inEnvironment && (
        <Radio.Group
          label="What runs again"
          value={from}
          onChange={value => setFrom(value === "start" ? "start" : "failed")}
        >
          <Stack gap={6} mt={6}>
            <Radio value="failed" label="The steps that did not succeed" data-autofocus />
            <Radio value="start" label="All steps of the stage" />
          </Stack>
        </Radio.Group>
      )}
    </Confirm>
  );
}
