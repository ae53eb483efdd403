import { TagsInput, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useOrg } from "@/data/me";
import { useAddRunner } from "@/data/runners";
import { SERVER_URL } from "@/data/serverUrl";
import { Confirm } from "@/ui/Confirm";
import { ShownOnce } from "@/ui/ShownOnce";

/** A registration token, with the command that uses it. */
export function NewRunner({ onClose }: { onClose: () => void }) {
  const add = useAddRunner(useOrg());
  const [name, setName] = useState("");
  const [labels, setLabels] = useState<string[]>([]);
  if (add.data) {
    const command = `BERTH_RUNNER_TOKEN=${add.data.token ?? ""} berth runner --server ${SERVER_URL}\n`;
    return (
      <ShownOnce
        title="Run this on the machine"
        warning="This is the only time you see its token"
        note="It can be used once, within an hour."
        label="The command"
        text={command}
        size="lg"
        onClose={onClose}
      />
    );
  }
  return (
    <Confirm
      onClose={onClose}
      title="Add a runner"
      action="Make a token"
      mutation={add}
      input={{ name: name.trim() || undefined, labels }}
    >
      <Text size="sm" c="dimmed">
        A machine with the same program on it, which reaches this server. It fetches its work; nothing
        connects to it.
      </Text>
      <TextInput
        label="Name"
        description="Without one the machine says what it is called"
        placeholder="build-1"
        maxLength={63}
        data-autofocus
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
      <TagsInput
        label="Labels"
        description="What runs_on asks for, besides its system and architecture. The machine can say fewer, and no others."
        placeholder="gpu"
        maxTags={32}
        value={labels}
        onChange={setLabels}
      />
    </Confirm>
  );
}
