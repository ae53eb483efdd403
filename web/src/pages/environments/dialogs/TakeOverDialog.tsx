import { List, Radio, Stack, Text, Textarea } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { lineQuery, sessionQuery, useTakeOver } from "@/data/environments";
import { RUN_LOOK } from "@/theme/status";
import { Commit } from "@/ui/Commit";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { Since } from "@/ui/When";
import { ClaimFields, type ClaimValues } from "./ClaimFields";
import type { HoldDialogProps } from "./Dialogs";
import { ttlSeconds } from "./ttl";
import { useWatch } from "./useWatch";

const GRACE_SECONDS = 300;
const FINAL = ["succeeded", "failed", "cancelled", "superseded"];

type Values = ClaimValues & { reason: string; mode: "now" | "after_current_deployment" | "grace" };

/** Take an environment from whoever holds it: what stops, who is told, and why. */
export function TakeOverDialog({ where, environment, lock: current, onClose }: HoldDialogProps) {
  // What the reader decided about is what they saw when the dialog opened.
  const [lock] = useState(current);
  const session = useQuery(sessionQuery(where, lock.sessionId));
  const line = useQuery({ ...lineQuery(where), enabled: environment.queueLength > 0 });
  const takeOver = useTakeOver(where);
  const watch = useWatch(where.org);
  const form = useForm<Values>({
    initialValues: { commitId: "", context: "", ttl: "", reason: "", mode: "now" },
  });
  const running = session.data?.deployments.filter(each => !FINAL.includes(each.status)) ?? [];
  const { reason, mode } = form.values;
  const submit = () =>
    takeOver.mutate(
      {
        seen: lock.fence,
        commitId: form.values.commitId.trim() || undefined,
        context: reason.trim(),
        ttlSeconds: ttlSeconds(form.values.ttl),
        reason: reason.trim(),
        mode,
        graceSeconds: mode === "grace" ? GRACE_SECONDS : undefined,
      },
      {
        onSuccess: answer => {
          if ("ticketId" in answer) tell(`You take over ${where.envName} next.`);
          else tell(`${where.envName} is yours.`, watch(answer.deploymentId));
          onClose();
        },
      },
    );
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Take over ${where.envName} from ${lock.holder.name}`}
      action="Take over"
      danger
      pending={takeOver.isPending}
      error={takeOver.error}
      disabled={reason.trim() === ""}
      onConfirm={submit}
    >
      <Stack gap={4}>
        <Text size="sm">
          {lock.holder.name} holds it <Since at={lock.claimedAt} />
          {lock.context ? `: “${lock.context}”.` : ", without a reason."} They are told that it was you, and
          why.
        </Text>
        <Stops running={running} isKnown={session.isSuccess} />
        {(line.data?.length ?? 0) > 0 && (
          <Text size="sm" c="dimmed">
            {line.data?.length} in line {line.data?.length === 1 ? "stays" : "stay"} there, behind you.
          </Text>
        )}
      </Stack>
      <Textarea
        label="Why you take over"
        description="They are told, and others see it."
        required
        autosize
        minRows={1}
        maxRows={4}
        maxLength={1000}
        data-autofocus
        {...form.getInputProps("reason")}
      />
      <Radio.Group label="When" {...form.getInputProps("mode")}>
        <Stack gap={6} mt={6}>
          <Radio value="now" label="Now" />
          <Radio value="after_current_deployment" label="When the deployment that runs has ended" />
          <Radio value="grace" label="In 5 minutes, so that they can finish" />
        </Stack>
      </Radio.Group>
      <ClaimFields form={form} withoutWhy />
    </Confirm>
  );
}

function Stops({ running, isKnown }: { running: Deployment[]; isKnown: boolean }) {
  if (!isKnown) return null;
  if (running.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        Nothing runs there now, so nothing is stopped.
      </Text>
    );
  }
  return (
    <>
      <Text size="sm" fw={600} c="var(--berth-bad)">
        This stops:
      </Text>
      <List size="sm">
        {running.map(each => (
          <List.Item key={each.id}>
            deployment #{each.number} of <Commit id={each.commitId} />, {RUN_LOOK[each.status].word}
          </List.Item>
        ))}
      </List>
    </>
  );
}
