import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDeployToEnvironment } from "@/data/environments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { toast } from "@/ui/toast";
import type { SessionDialogProps } from "./EnvironmentDialog";
import { useViewDeployment } from "./useViewDeployment";

export function DeployToEnvironmentDialog({ where, lock, onClose }: SessionDialogProps) {
  const deploy = useDeployToEnvironment(where, lock.sessionId);
  const viewDeployment = useViewDeployment(where.org);
  const form = useForm({ initialValues: { commitId: lock.commitId ?? "" } });
  const commitId = form.values.commitId.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Deploy to ${where.envName}`}
      action="Deploy"
      mutation={deploy}
      disabled={commitId === ""}
      input={{ commitId }}
      onSuccess={answer => {
        toast.success(`Deployment #${answer.number} started`, viewDeployment(answer.id));
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
    </ConfirmDialog>
  );
}
