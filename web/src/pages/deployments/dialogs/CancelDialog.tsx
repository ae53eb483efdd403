import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { useCancelDeployment } from "@/data/deployments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ReasonField } from "@/ui/fields/ReasonField";

const ENDED = ["succeeded", "failed", "cancelled", "skipped"];

type Props = { org: string; deployment: Deployment; onClose: () => void };

/** Cancels a deployment, or one of its stages and those after it. */
export function CancelDialog({ org, deployment, onClose }: Props) {
  const cancel = useCancelDeployment(org, deployment.id);
  const [stage, setStage] = useState("");
  const [reason, setReason] = useState("");
  const open = deployment.stages.filter(each => each.kind === "stage" && !ENDED.includes(each.status));
  const isHeld = deployment.environmentId != null;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Cancel deployment #${deployment.number}?`}
      action={stage ? `Cancel ${stage}` : "Cancel deployment"}
      danger
      mutation={cancel}
      input={{ stage: stage || undefined, reason: reason.trim() || undefined }}
      success={() => `Cancelling deployment #${deployment.number}`}
    >
      <Text size="sm">
        Running steps are stopped, and killed after 10 seconds. Other steps don’t start.
        {isHeld && " The session stays active."}
      </Text>
      {open.length > 1 && (
        <Radio.Group label="Scope" value={stage} onChange={setStage}>
          <Stack gap={6} mt={6}>
            <Radio value="" label="Whole deployment" />
            {open.map(each => (
              <Radio key={each.name} value={each.name} label={`${each.name} and later stages`} />
            ))}
          </Stack>
        </Radio.Group>
      )}
      <ReasonField
        description="Visible to everyone in the organization and in the logs of cancelled steps"
        data-autofocus
        value={reason}
        onChange={setReason}
      />
    </ConfirmDialog>
  );
}
