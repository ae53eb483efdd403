import { Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { toProblem } from "@/api/problem";
import { useClaimEnvironment } from "@/data/environments";
import { formatHolder } from "@/format/holder";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { useCheckedCommit } from "@/ui/fields/CommitInput";
import { toast } from "@/ui/toast";
import { ClaimFields, type ClaimFormValues } from "./ClaimFields";
import type { EnvironmentDialogProps } from "./EnvironmentDialog";
import { parseTtl } from "./ttl";
import { useViewDeployment } from "./useViewDeployment";

/** Claims a free environment, or joins the queue of a held one. */
export function ClaimDialog({
  where,
  environment,
  onClose,
  isQueued,
}: EnvironmentDialogProps & { isQueued?: boolean }) {
  const claim = useClaimEnvironment(where);
  const viewDeployment = useViewDeployment(where.org);
  const form = useForm<ClaimFormValues>({ initialValues: { commitId: "", context: "", ttl: "" } });
  const commit = useCheckedCommit(where.org, where.pipelineId, form.values.commitId);
  // Claimed by another user in the meantime: the same form joins the queue.
  const isHeldNow = claim.isError && toProblem(claim.error).code === "environment_locked";
  const joinsQueue = isQueued || isHeldNow;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={joinsQueue ? `Join the queue for ${where.envName}` : `Claim ${where.envName}`}
      action={joinsQueue ? "Join queue" : "Claim"}
      mutation={claim}
      disabled={!commit.isChecked}
      input={{
        commitId: form.values.commitId.trim() || undefined,
        context: form.values.context.trim() || undefined,
        ttlSeconds: parseTtl(form.values.ttl),
        queue: joinsQueue || undefined,
      }}
      onSuccess={answer => {
        if ("ticketId" in answer) toast.success(`Joined the queue for ${where.envName}`);
        else toast.success(`${where.envName} claimed`, viewDeployment(answer.deploymentId));
        onClose();
      }}
    >
      {joinsQueue && (
        <Text size="sm" c="dimmed">
          {environment.lock ? `${formatHolder(environment.lock)} holds it now. ` : ""}
          When you reach the front of the queue, your session starts and your commit is deployed
          automatically.
        </Text>
      )}
      <ClaimFields form={form} commit={commit} />
    </ConfirmDialog>
  );
}
