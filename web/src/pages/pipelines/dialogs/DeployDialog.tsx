import { Radio, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Pipeline } from "@/api/types";
import { type Start, useStart } from "@/data/deployments";
import { useMay } from "@/data/me";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

const COMMIT_CHARS_MAX = 255;
type What = "head" | "commit" | "ref";
type Props = { org: string; pipeline: Pipeline; onClose: () => void };

/** Takes a commit through the stages. */
export function DeployDialog({ org, pipeline, onClose }: Props) {
  const navigate = useNavigate();
  const start = useStart(org, pipeline.slug);
  const mayBypass = useMay("gates:bypass");
  const hasRepository = pipeline.repository != null;
  const [what, setWhat] = useState<What>(hasRepository && pipeline.tracks ? "head" : "commit");
  const [name, setName] = useState("");
  const [reason, setReason] = useState("");
  const [isBypass, setBypass] = useState(false);
  const because = reason.trim();
  const request: Start = {
    ...(what === "commit" ? { commitId: name.trim() } : {}),
    ...(what === "ref" ? { ref: name.trim() } : {}),
    ...(isBypass ? { bypass: { reason: because } } : { reason: because || undefined }),
  };
  return (
    <Confirm
      onClose={onClose}
      title={`Deploy ${pipeline.name}`}
      action={isBypass ? "Deploy past every gate" : "Deploy"}
      danger={isBypass}
      mutation={start}
      disabled={(what !== "head" && name.trim() === "") || (isBypass && because === "")}
      input={request}
      success={({ number }) => `Deployment #${number} is on its way.`}
      onSuccess={({ id }) =>
        navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } })
      }
    >
      <Text size="sm">Through {pipeline.stages.map(stage => stage.name).join(", then ")}.</Text>
      {hasRepository && (
        <Radio.Group label="What" value={what} onChange={value => setWhat(value as What)}>
          <Stack gap={6} mt={6}>
            {pipeline.tracks && <Radio value="head" label={`The head of ${pipeline.tracks}`} />}
            <Radio value="commit" label="A commit" />
            <Radio value="ref" label="A branch or tag" />
          </Stack>
        </Radio.Group>
      )}
      {what !== "head" && (
        <TextInput
          label={what === "commit" ? "Commit" : "Branch or tag"}
          placeholder={what === "commit" ? "8a46ee3" : "release-1.4"}
          value={name}
          maxLength={COMMIT_CHARS_MAX}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
          spellCheck={false}
        />
      )}
      <ReasonField withAsterisk={isBypass} value={reason} onChange={setReason} />
      {mayBypass && (
        <Switch
          label="Pass every gate"
          description="An emergency: windows, approvals and pauses do not hold it. Everybody sees who did it and why."
          checked={isBypass}
          onChange={event => setBypass(event.currentTarget.checked)}
        />
      )}
    </Confirm>
  );
}
