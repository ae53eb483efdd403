import { Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { problemOf } from "@/api/problem";
import { useClaim } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { ClaimFields, type ClaimValues } from "./ClaimFields";
import type { DialogProps } from "./Dialogs";
import { ttlSeconds } from "./ttl";
import { useWatch } from "./useWatch";

/** Claim a free environment, or take a place in line for a held one. */
export function ClaimDialog({ where, environment, onClose, inLine }: DialogProps & { inLine?: boolean }) {
  const claim = useClaim(where);
  const watch = useWatch(where.org);
  const form = useForm<ClaimValues>({ initialValues: { commitId: "", context: "", ttl: "" } });
  // Somebody was faster: the same form takes a place in line.
  const isHeldNow = claim.isError && problemOf(claim.error).code === "environment_locked";
  const waits = inLine || isHeldNow;
  const submit = () =>
    claim.mutate(
      {
        commitId: form.values.commitId.trim() || undefined,
        context: form.values.context.trim() || undefined,
        ttlSeconds: ttlSeconds(form.values.ttl),
        queue: waits || undefined,
      },
      {
        onSuccess: answer => {
          if ("ticketId" in answer) tell(`You are in line for ${where.envName}.`);
          else tell(`${where.envName} is yours.`, watch(answer.deploymentId));
          onClose();
        },
      },
    );
  return (
    <Confirm
      opened
      onClose={onClose}
      title={waits ? `Wait in line for ${where.envName}` : `Claim ${where.envName}`}
      action={waits ? "Wait in line" : "Claim"}
      pending={claim.isPending}
      error={claim.error}
      onConfirm={submit}
    >
      {waits && (
        <Text size="sm" c="dimmed">
          {environment.lock ? `${environment.lock.holder.name} holds it now. ` : ""}
          When it is your turn it becomes yours, and your commit is deployed, without you having to watch.
        </Text>
      )}
      <ClaimFields form={form} />
    </Confirm>
  );
}
