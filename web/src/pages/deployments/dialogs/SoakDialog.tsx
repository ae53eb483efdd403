import { Text } from "@mantine/core";
import { useState } from "react";
import { useDecideSoak } from "@/data/deployments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = {
  org: string;
  deploymentId: string;
  stepId: string;
  choice: "end" | "reject";
  onClose: () => void;
};

/** Ends a soak early, or rejects the deployment during it. */
export function SoakDialog({ org, deploymentId, stepId, choice, onClose }: Props) {
  const soak = useDecideSoak(org, deploymentId);
  const [reason, setReason] = useState("");
  const isEnd = choice === "end";
  return (
    <ConfirmDialog
      onClose={onClose}
      title={isEnd ? "End the soak now?" : "Reject this deployment?"}
      action={isEnd ? "End soak" : "Reject"}
      danger={!isEnd}
      mutation={soak}
      input={{ stepId, choice, reason: reason.trim() || undefined }}
      success={() => (isEnd ? "Soak ended" : "Rejected")}
    >
      <Text size="sm">
        {isEnd ? "The deployment continues immediately." : "The step and its stage fail."}
      </Text>
      <ReasonField data-autofocus value={reason} onChange={setReason} />
    </ConfirmDialog>
  );
}
