import { Text, Textarea } from "@mantine/core";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { usePause } from "@/data/pipelines";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";

const REASON_CHARS_MAX = 1_000;

type Props = { org: string; pipeline: Pipeline; pause: boolean; onClose: () => void };

/** Pauses new deployments of a pipeline, or lets them go on. */
export function PauseDialog({ org, pipeline, pause, onClose }: Props) {
  const change = usePause(org, pipeline.slug);
  const [reason, setReason] = useState("");
  const lifted = pipeline.stages.filter(stage => stage.paused).map(stage => stage.name);
  return (
    <Confirm
      opened
      onClose={onClose}
      title={pause ? `Pause new deployments of ${pipeline.name}?` : `Resume ${pipeline.name}?`}
      action={pause ? "Pause" : "Resume"}
      pending={change.isPending}
      error={change.error}
      onConfirm={() =>
        change.mutate(
          { pause, reason: reason.trim() || undefined },
          {
            onSuccess: () => {
              tell(pause ? "New deployments are paused." : "Resumed.");
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm">
        {pause
          ? "Steps that run finish, and no further one begins. Pushes and requests wait until somebody resumes it."
          : "What was in a stage goes on; of those that wait, the newest."}
        {!pause && lifted.length > 0 && ` Newer deployments come into ${lifted.join(" and ")} again.`}
      </Text>
      <Textarea
        label="Why"
        description="Shown to everybody who looks at this pipeline."
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
