import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { useCancel } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

const ENDED = ["succeeded", "failed", "cancelled", "skipped"];

type Props = { org: string; deployment: Deployment; onClose: () => void };

/** Stops all of it, or from one stage on. */
export function CancelDialog({ org, deployment, onClose }: Props) {
  const cancel = useCancel(org, deployment.id);
  const [stage, setStage] = useState("");
  const [reason, setReason] = useState("");
  const open = deployment.stages.filter(each => each.kind === "stage" && !ENDED.includes(each.status));
  const isHeld = deployment.environmentId != null;
  return (
    <Confirm
      onClose={onClose}
      title={`Cancel #${deployment.number}?`}
      action={stage ? `Cancel ${stage}` : "Cancel the deployment"}
      danger
      mutation={cancel}
      input={{ stage: stage || undefined, reason: reason.trim() || undefined }}
      success={() => `Deployment #${deployment.number} is told to stop.`}
    >
      <Text size="sm">
        What has not started never will. What runs is told to stop, and killed after ten seconds if it does
        not.
        {isHeld && " The environment stays with whoever holds it."}
      </Text>
      {open.length > 1 && (
        <Radio.Group label="What to cancel" value={stage} onChange={setStage}>
          <Stack gap={6} mt={6}>
            <Radio value="" label="The whole deployment" />
            {open.map(each => (
              <Radio key={each.name} value={each.name} label={`${each.name} and what follows it`} />
            ))}
          </Stack>
        </Radio.Group>
      )}
      <ReasonField
        description="Shown to everybody, and in the log of what is stopped."
        data-autofocus
        value={reason}
        onChange={setReason}
      />
    </Confirm>
  );
}
