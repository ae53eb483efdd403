import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { useRetry } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";

type Props = { org: string; deployment: Deployment; stage: string; onClose: () => void };

/** Runs a failed stage once more. */
export function RetryDialog({ org, deployment, stage, onClose }: Props) {
  const retry = useRetry(org, deployment.id);
  const [from, setFrom] = useState<"failed" | "start">("failed");
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Retry ${stage}?`}
      action="Retry"
      pending={retry.isPending}
      error={retry.error}
      onConfirm={() =>
        retry.mutate(
          { stage, from },
          {
            onSuccess: () => {
              tell(`${stage} is tried again.`);
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm">
        With the same commit, definition and versions of secrets as before. Earlier attempts stay to be read,
        and the stages after it follow.
      </Text>
      {deployment.bypass && (
        <Text size="sm" c="var(--berth-warn)">
          This deployment passes windows and approvals; so does its retry, and that is recorded.
        </Text>
      )}
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
    </Confirm>
  );
}
