import { TagsInput, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useOrg } from "@/data/me";
import { useAddRunner } from "@/data/runners";
import { SERVER_URL } from "@/data/serverUrl";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";

/** Creates a registration token and shows the command that uses it. */
export function NewRunnerDialog({ onClose }: { onClose: () => void }) {
  const add = useAddRunner(useOrg());
  const [name, setName] = useState("");
  const [labels, setLabels] = useState<string[]>([]);
  if (add.data) {
    const command = `BERTH_RUNNER_TOKEN=${add.data.token ?? ""} berth runner --server ${SERVER_URL}\n`;
    return (
      <OneTimeSecretDialog
        title="Run this command on the machine"
        warning="Copy the command now. Its token won’t be shown again."
        note="The token works once and expires in an hour."
        label="Command"
        text={command}
        size="lg"
        onClose={onClose}
      />
    );
  }
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Add runner"
      action="Generate token"
      mutation={add}
      input={{ name: name.trim() || undefined, labels }}
    >
      <Text size="sm" c="dimmed">
        A runner is a machine with berth installed. It polls this server for work and needs no inbound access.
      </Text>
      <TextInput
        label="Name"
        description="Defaults to the hostname of the machine"
        placeholder="build-1"
        maxLength={63}
        data-autofocus
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
      <TagsInput
        label="Labels"
        description="Matched by runs_on, in addition to operating system and architecture. The runner can register with a subset."
        placeholder="gpu"
        maxTags={32}
        value={labels}
        onChange={setLabels}
      />
    </ConfirmDialog>
  );
}
