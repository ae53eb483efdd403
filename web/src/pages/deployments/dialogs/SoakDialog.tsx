import { Text } from "@mantine/core";
import { useState } from "react";
import { useSoak } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = {
  org: string;
  deploymentId: string;
  stepId: string;
  choice: "end" | "reject";
  onClose: () => void;
};

/** Ends the time to watch: well, or not. */
export function SoakDialog({ org, deploymentId, stepId, choice, onClose }: Props) {
  const soak = useSoak(org, deploymentId);
  const [reason, setReason] = useState("");
  const isEnd = choice === "end";
  return (
    <Confirm
      onClose={onClose}
      title={isEnd ? "End the soak now?" : "Reject it?"}
      action={isEnd ? "End the soak" : "Reject"}
      danger={!isEnd}
      mutation={soak}
      input={{ stepId, choice, reason: reason.trim() || undefined }}
      success={() => (isEnd ? "The soak has ended." : "Rejected.")}
    >
      <Text size="sm">
        {isEnd
          ? "The deployment goes on at once, before its time."
          : "The step fails, and the stage with it."}
      </Text>
      <ReasonField data-autofocus value={reason} onChange={setReason} />
    </Confirm>
  );
}
