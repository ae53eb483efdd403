import { Text } from "@mantine/core";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { usePause } from "@/data/pipelines";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { org: string; pipeline: Pipeline; pause: boolean; onClose: () => void };

/** Pauses new deployments of a pipeline, or lets them go on. */
export function PauseDialog({ org, pipeline, pause, onClose }: Props) {
  const change = usePause(org, pipeline.slug);
  const [reason, setReason] = useState("");
  const lifted = pipeline.stages.filter(stage => stage.paused).map(stage => stage.name);
  return (
    <Confirm
      onClose={onClose}
      title={pause ? `Pause new deployments of ${pipeline.name}?` : `Resume ${pipeline.name}?`}
      action={pause ? "Pause" : "Resume"}
      mutation={change}
      input={{ pause, reason: reason.trim() || undefined }}
      success={() => (pause ? "New deployments are paused." : "Resumed.")}
    >
      <Text size="sm">
        {pause
          ? "Steps that run finish, and no further one begins. Pushes and requests wait until somebody resumes it."
          : "What was in a stage goes on; of those that wait, the newest."}
        {!pause && lifted.length > 0 && ` Newer deployments come into ${lifted.join(" and ")} again.`}
      </Text>
      <ReasonField
        description="Shown to everybody who looks at this pipeline."
        data-autofocus
        value={reason}
        onChange={setReason}
      />
    </Confirm>
  );
}
