import { NativeSelect, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useExtendSession } from "@/data/environments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { Countdown } from "@/ui/RelativeTime";
import type { SessionDialogProps } from "./EnvironmentDialog";
import { parseTtl, TTL_CHOICES } from "./ttl";

export function ExtendDialog({ where, lock, onClose }: SessionDialogProps) {
  const extend = useExtendSession(where, lock.sessionId);
  const form = useForm({ initialValues: { ttl: "" } });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Extend your session on ${where.envName}`}
      action="Extend"
      mutation={extend}
      input={{ ttlSeconds: parseTtl(form.values.ttl) }}
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
    </ConfirmDialog>
  );
}
