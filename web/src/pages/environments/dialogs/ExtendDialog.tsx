import { NativeSelect, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useExtend } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { Countdown } from "@/ui/When";
import type { SessionDialogProps } from "./Dialogs";
import { TTL_CHOICES, ttlSeconds } from "./ttl";

export function ExtendDialog({ where, lock, onClose }: SessionDialogProps) {
  const extend = useExtend(where, lock.sessionId);
  const form = useForm({ initialValues: { ttl: "" } });
  return (
    <Confirm
      onClose={onClose}
      title={`Extend your hold of ${where.envName}`}
      action="Extend"
      mutation={extend}
      input={{ ttlSeconds: ttlSeconds(form.values.ttl) }}
      success={() => `Your hold of ${where.envName} is extended.`}
    >
      <Text size="sm" c="dimmed">
        {lock.expiresAt ? (
          <>
            It ends in <Countdown until={lock.expiresAt} />. An extension never brings the end nearer.
          </>
        ) : (
          "It has no end of its own; this gives it none either, unless you choose one."
        )}
      </Text>
      <NativeSelect label="From now" data={TTL_CHOICES} data-autofocus {...form.getInputProps("ttl")} />
    </Confirm>
  );
}
