import { Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { problemOf } from "@/api/problem";
import { useClaim } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { toast } from "@/ui/toast";
import { ClaimFields, type ClaimValues } from "./ClaimFields";
import type { DialogProps } from "./Dialogs";
import { ttlSeconds } from "./ttl";
import { useWatch } from "./useWatch";

/** Claims a free environment, or joins the queue of a held one. */
export function ClaimDialog({ where, environment, onClose, isQueued }: DialogProps & { isQueued?: boolean }) {
  const claim = useClaim(where);
  const watch = useWatch(where.org);
  const form = useForm<ClaimValues>({ initialValues: { commitId: "", context: "", ttl: "" } });
  // Claimed by another user in the meantime: the same form joins the queue.
  const isHeldNow = claim.isError && problemOf(claim.error).code === "environment_locked";
  const joinsQueue = isQueued || isHeldNow;
  return (
    <Confirm
      onClose={onClose}
      title={joinsQueue ? `Join the queue for ${where.envName}` : `Claim ${where.envName}`}
      action={joinsQueue ? "Join queue" : "Claim"}
      mutation={claim}
      input={{
        commitId: form.values.commitId.trim() || undefined,
        context: form.values.context.trim() || undefined,
        ttlSeconds: ttlSeconds(form.values.ttl),
        queue: joinsQueue || undefined,
      }}
      onSuccess={answer => {
        if ("ticketId" in answer) toast.success(`Joined the queue for ${where.envName}`);
        else toast.success(`${where.envName} claimed`, watch(answer.deploymentId));
        onClose();
      }}
    >
      {joinsQueue && (
        <Text size="sm" c="dimmed">
          {environment.lock ? `${environment.lock.holder.name} holds it now. ` : ""}
          When you reach the front of the queue, your session starts and your commit is deployed
          automatically.
        </Text>
      )}
      <ClaimFields form={form} />
    </Confirm>
  );
}
