import { Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useSoak } from "@/data/deployments";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";

const REASON_CHARS_MAX = 1_000;

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
      opened
      onClose={onClose}
      title={isEnd ? "End the soak now?" : "Reject it?"}
      action={isEnd ? "End the soak" : "Reject"}
      danger={!isEnd}
      pending={soak.isPending}
      error={soak.error}
      onConfirm={() =>
        soak.mutate(
          { stepId, choice, reason: reason.trim() || undefined },
          {
            onSuccess: () => {
              tell(isEnd ? "The soak has ended." : "Rejected.");
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm">
        {isEnd
          ? "The deployment goes on at once, before its time."
          : "The step fails, and the stage with it."}
      </Text>
      <Textarea
        label="Why"
        value={reason}
        maxLength={REASON_CHARS_MAX}
        onChange={event => setReason(event.currentTarget.value)}
        data-autofocus
        autosize
        minRows={2}
      />
    </Confirm>
  );
}
