import { Radio, Stack, Switch, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { stageTargets } from "@/data/deploymentAccess";
import { type DeploymentRequest, useStartDeployment } from "@/data/deployments";
import { useAccess } from "@/data/me";
import { may } from "@/data/permissions";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitInput, useCheckedCommit } from "@/ui/fields/CommitInput";
import { ReasonField } from "@/ui/fields/ReasonField";

type CommitSource = "head" | "commit" | "ref";
type Props = {
  org: string;
  pipeline: Pipeline;
  /** Deploys this commit, so that it reaches this stage. */
  promote?: { commitId: string; to: string };
  onClose: () => void;
};

/** Starts a deployment through all stages. */
export function DeployPipelineDialog({ org, pipeline, promote, onClose }: Props) {
  const navigate = useNavigate();
  const start = useStartDeployment(org, pipeline.slug);
  const access = useAccess();
  const mayBypass = stageTargets(pipeline).every(stage => may(access, "gates:bypass", stage));
  const hasRepository = pipeline.repository != null;
  const [what, setWhat] = useState<CommitSource>(
    hasRepository && pipeline.tracks && !promote ? "head" : "commit",
  );
  const [name, setName] = useState(promote?.commitId ?? "");
  const checked = useCheckedCommit(org, pipeline.slug, name);
  const [reason, setReason] = useState("");
  const [isBypass, setBypass] = useState(false);
  const trimmedReason = reason.trim();
  const request: DeploymentRequest = {
    ...(what === "commit" ? { commitId: name.trim() } : {}),
    ...(what === "ref" ? { ref: name.trim() } : {}),
    ...(isBypass ? { bypass: { reason: trimmedReason } } : { reason: trimmedReason || undefined }),
  };
  return (
    <ConfirmDialog
      onClose={onClose}
      title={promote ? `Promote ${pipeline.name} to ${promote.to}?` : `Deploy ${pipeline.name}`}
      action={isBypass ? "Bypass gates and deploy" : promote ? "Promote" : "Deploy"}
      danger={isBypass}
      mutation={start}
      disabled={
        (what !== "head" && (name.trim() === "" || !checked.isChecked)) || (isBypass && trimmedReason === "")
      }
      input={request}
      success={({ number }) => `Deployment #${number} started`}
      onSuccess={({ id }) =>
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Text size="sm">Deploys to {pipeline.stages.map(stage => stage.name).join(", then ")}.</Text>
      {hasRepository && !promote && (
        <Radio.Group label="Source" value={what} onChange={value => setWhat(value as CommitSource)}>
          <Stack gap={6} mt={6}>
            {pipeline.tracks && <Radio value="head" label={`Latest commit on ${pipeline.tracks}`} />}
            <Radio value="commit" label="Commit" />
            <Radio value="ref" label="Branch or tag" />
          </Stack>
        </Radio.Group>
      )}
      {what !== "head" && (
        <CommitInput
          field={checked.field}
          label={what === "commit" ? "Commit" : "Branch or tag"}
          placeholder={what === "commit" ? "8a46ee3" : "release-1.4"}
          value={name}
          onChange={setName}
          data-autofocus
        />
      )}
      <ReasonField withAsterisk={isBypass} value={reason} onChange={setReason} />
      {mayBypass && (
        <Switch
          label="Bypass all gates"
          description="For emergencies: skips deployment windows, approvals and pauses. The audit log records your name and reason."
          checked={isBypass}
          onChange={event => setBypass(event.currentTarget.checked)}
        />
      )}
    </ConfirmDialog>
  );
}
