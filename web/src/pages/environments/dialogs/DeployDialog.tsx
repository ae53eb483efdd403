import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDeploy } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { toast } from "@/ui/toast";
import type { SessionDialogProps } from "./Dialogs";
import { useWatch } from "./useWatch";

export function DeployDialog({ where, lock, onClose }: SessionDialogProps) {
  const deploy = useDeploy(where, lock.sessionId);
  const watch = useWatch(where.org);
  const form = useForm({ initialValues: { commitId: lock.commitId ?? "" } });
  const commitId = form.values.commitId.trim();
  return (
    <Confirm
      onClose={onClose}
      title={`Deploy to ${where.envName}`}
      action="Deploy"
      mutation={deploy}
      disabled={commitId === ""}
      input={{ commitId }}
      onSuccess={answer => {
        toast.success(`Deployment #${answer.number} started`, watch(answer.id));
        onClose();
      }}
    >
      <TextInput
        label="Commit, branch or tag"
        placeholder="main"
        required
        data-autofocus
        {...form.getInputProps("commitId")}
      />
    </Confirm>
  );
}
