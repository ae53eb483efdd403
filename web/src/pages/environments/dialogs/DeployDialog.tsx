import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDeploy } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import type { HoldDialogProps } from "./Dialogs";
import { useWatch } from "./useWatch";

export function DeployDialog({ where, lock, onClose }: HoldDialogProps) {
  const deploy = useDeploy(where, lock.sessionId);
  const watch = useWatch(where.org);
  const form = useForm({ initialValues: { commitId: lock.commitId ?? "" } });
  const commitId = form.values.commitId.trim();
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Deploy into ${where.envName}`}
      action="Deploy"
      pending={deploy.isPending}
      error={deploy.error}
      disabled={commitId === ""}
      onConfirm={() =>
        deploy.mutate(
          { commitId },
          {
            onSuccess: answer => {
              tell(`Deployment #${answer.number} is on its way.`, watch(answer.id));
              onClose();
            },
          },
        )
      }
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
