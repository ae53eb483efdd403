import { Text } from "@mantine/core";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { usePausePipeline } from "@/data/pipelines";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { org: string; pipeline: Pipeline; pause: boolean; onClose: () => void };

/** Pauses or resumes new deployments of a pipeline. */
export function PauseDialog({ org, pipeline, pause, onClose }: Props) {
  const change = usePausePipeline(org, pipeline.slug);
  const [reason, setReason] = useState("");
  const lifted = pipeline.stages.filter(stage => stage.paused).map(stage => stage.name);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={pause ? `Pause new deployments of ${pipeline.name}?` : `Resume ${pipeline.name}?`}
      action={pause ? "Pause" : "Resume"}
      mutation={change}
      input={{ pause, reason: reason.trim() || undefined }}
      success={() => (pause ? "New deployments paused" : "Pipeline resumed")}
    >
      <Text size="sm">
        {pause
          ? "Running steps finish, and no further step starts. New deployments wait until the pipeline is resumed."
          : "Running deployments continue. Of the queued ones, only the newest starts."}
        {!pause && lifted.length > 0 && ` New deployments to ${lifted.join(" and ")} are allowed again.`}
      </Text>
      <ReasonField
        description="Visible to everyone in the organization"
        data-autofocus
        value={reason}
        onChange={setReason}
      />
    </ConfirmDialog>
  );
}
