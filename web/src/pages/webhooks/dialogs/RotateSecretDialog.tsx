import { Text } from "@mantine/core";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRotateWebhookSecret } from "@/data/webhooks";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";
import { RelativeTime } from "@/ui/RelativeTime";

/** Rotates the signing secret. Deliveries are signed with both secrets for a day. */
export function RotateSecretDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useRotateWebhookSecret(useOrg(), webhook.id);
  if (rotate.data) {
    const until = rotate.data.oldSecretUntil;
    return (
      <OneTimeSecretDialog
        title="Secret rotated"
        note={
          <>
            Configure it in the receiver.{" "}
            {until && (
              <>
                Deliveries are also signed with the previous secret, which expires <RelativeTime at={until} />
                .
              </>
            )}
          </>
        }
        label="Signing secret"
        text={rotate.data.secret ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Rotate the secret of ${webhook.name}?`}
      action="Rotate secret"
      mutation={rotate}
      input={undefined}
    >
      <Text size="sm">
        Deliveries are signed with both the old and the new secret for one day. Update the receiver in that
        time.
      </Text>
    </ConfirmDialog>
  );
}
