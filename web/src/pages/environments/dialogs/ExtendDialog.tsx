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
      title={`Extend your session on ${where.envName}`}
      action="Extend"
      mutation={extend}
      input={{ ttlSeconds: ttlSeconds(form.values.ttl) }}
      success={() => `Session on ${where.envName} extended`}
    >
      <Text size="sm" c="dimmed">
        {lock.expiresAt ? (
          <>
            It expires in <Countdown until={lock.expiresAt} />. Extending never shortens it.
          </>
        ) : (
          "Your session has no expiry. Choose a duration to set one."
        )}
      </Text>
      <NativeSelect label="Expires in" data={TTL_CHOICES} data-autofocus {...form.getInputProps("ttl")} />
    </Confirm>
  );
}
