import { useForm } from "@mantine/form";
import { useDeployToEnvironment } from "@/data/environments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitInput, useCheckedCommit } from "@/ui/fields/CommitInput";
import { toast } from "@/ui/toast";
import type { SessionDialogProps } from "./EnvironmentDialog";
import { useViewDeployment } from "./useViewDeployment";

export function DeployToEnvironmentDialog({ where, lock, onClose }: SessionDialogProps) {
  const deploy = useDeployToEnvironment(where, lock.sessionId);
  const viewDeployment = useViewDeployment(where.org);
  const form = useForm({ initialValues: { commitId: lock.commitId ?? "" } });
  const commitId = form.values.commitId.trim();
  const checked = useCheckedCommit(where.org, where.pipelineId, form.values.commitId);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Deploy to ${where.envName}`}
      action="Deploy"
      mutation={deploy}
      disabled={commitId === "" || !checked.isChecked}
      input={{ commitId }}
      onSuccess={answer => {
        toast.success(`Deployment #${answer.number} started`, viewDeployment(answer.id));
        onClose();
      }}
    >
      <CommitInput field={checked.field} required data-autofocus {...form.getInputProps("commitId")} />
    </ConfirmDialog>
  );
}
