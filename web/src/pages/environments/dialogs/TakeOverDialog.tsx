import { List, Radio, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { queueQuery, sessionQuery, useLeaveQueue, useTakeOverEnvironment } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitName } from "@/ui/commits/CommitLine";
import { useCheckedCommit } from "@/ui/fields/CommitInput";
import { ReasonField } from "@/ui/fields/ReasonField";
import { SinceTime } from "@/ui/RelativeTime";
import { toast } from "@/ui/toast";
import { ClaimFields, type ClaimFormValues } from "./ClaimFields";
import type { SessionDialogProps } from "./EnvironmentDialog";
import { parseTtl } from "./ttl";
import { useViewDeployment } from "./useViewDeployment";

const GRACE_SECONDS = 300;
const FINAL = ["succeeded", "failed", "cancelled", "superseded"];

type Values = ClaimFormValues & { reason: string; mode: "now" | "after_current_deployment" | "grace" };

/** Takes over an environment; shows which deployments are cancelled and asks for a reason. */
export function TakeOverDialog({ where, environment, lock: current, onClose }: SessionDialogProps) {
  // The session that the dialog was opened for: the user decided about that one.
  const [lock] = useState(current);
  const session = useQuery(sessionQuery(where, lock.sessionId));
  const queue = useQuery({ ...queueQuery(where), enabled: environment.queueLength > 0 });
  const takeOver = useTakeOverEnvironment(where);
  const leave = useLeaveQueue(where);
  const me = useMe().user.id;
  // A ticket of a claim for any of several environments stays: it may be granted elsewhere.
  const ownTickets = queue.data?.filter(each => each.holder.id === me && !each.groupId) ?? [];
  const others = queue.data?.filter(each => each.holder.id !== me).length ?? 0;
  const viewDeployment = useViewDeployment(where.org);
  const form = useForm<Values>({
    initialValues: { commitId: "", context: "", ttl: "", reason: "", mode: "now" },
  });
  const commit = useCheckedCommit(where.org, where.pipelineId, form.values.commitId);
  const running = session.data?.deployments.filter(each => !FINAL.includes(each.status)) ?? [];
  const { reason, mode } = form.values;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Take over ${where.envName} from ${lock.holder.name}?`}
      action="Take over"
      danger
      disabled={reason.trim() === "" || !commit.isChecked}
      mutation={takeOver}
      input={{
        seen: lock.fence,
        commitId: form.values.commitId.trim() || undefined,
        context: reason.trim(),
        ttlSeconds: parseTtl(form.values.ttl),
        reason: reason.trim(),
        mode,
        graceSeconds: mode === "grace" ? GRACE_SECONDS : undefined,
      }}
      onSuccess={answer => {
        for (const { ticketId } of ownTickets) leave.mutate(ticketId, { onError: toast.problem });
        if ("ticketId" in answer) toast.success(`Takeover of ${where.envName} scheduled`);
        else toast.success(`${where.envName} taken over`, viewDeployment(answer.deploymentId));
        onClose();
      }}
    >
      <Stack gap={4}>
        <Text size="sm">
          {formatHolder(lock)} has held it <SinceTime at={lock.claimedAt} />
          {lock.context ? `: “${lock.context}”.` : "."} They will be notified.
        </Text>
        <CancelledDeployments running={running} isKnown={session.isSuccess} />
        {(others > 0 || ownTickets.length > 0) && (
          <Text size="sm" c="dimmed">
            {others > 0 && `${others === 1 ? "1 person stays" : `${others} people stay`} in the queue. `}
            {ownTickets.length > 0 && "You leave the queue."}
          </Text>
        )}
      </Stack>
      <ReasonField
        label="Reason"
        description="Sent to the holder and visible to everyone in the organization"
        required
        minRows={1}
        maxRows={4}
        data-autofocus
        {...form.getInputProps("reason")}
      />
      <Radio.Group label="When" {...form.getInputProps("mode")}>
        <Stack gap={6} mt={6}>
          <Radio value="now" label="Now" />
          <Radio value="after_current_deployment" label="After the current deployment" />
          <Radio value="grace" label="In 5 minutes, to let them finish" />
        </Stack>
      </Radio.Group>
      <ClaimFields form={form} commit={commit} withoutReason />
    </ConfirmDialog>
  );
}

function CancelledDeployments({ running, isKnown }: { running: Deployment[]; isKnown: boolean }) {
  if (!isKnown) return null;
  if (running.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        No deployment is running.
      </Text>
    );
  }
  return (
    <>
      <Text size="sm" fw={600} c="var(--berth-bad)">
        This cancels:
      </Text>
      <List size="sm">
        {running.map(each => (
          <List.Item key={each.id}>
            Deployment #{each.number} of <CommitName commitId={each.commitId} commit={each.commit} />,{" "}
            {RUN_STATUS_STYLE[each.status].label}
          </List.Item>
        ))}
      </List>
    </>
  );
}
