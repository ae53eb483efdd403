import { Text } from "@mantine/core";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRotateSecret } from "@/data/webhooks";
import { Confirm } from "@/ui/Confirm";
import { ShownOnce } from "@/ui/ShownOnce";
import { When } from "@/ui/When";

/** Rotates the signing secret. Deliveries are signed with both secrets for a day. */
export function RotateSecret({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useRotateSecret(useOrg(), webhook.id);
  if (rotate.data) {
    const until = rotate.data.oldSecretUntil;
    return (
      <ShownOnce
        title="Secret rotated"
        note={
          <>
            Configure it in the receiver.{" "}
            {until && (
              <>
                Deliveries are also signed with the previous secret, which expires <When at={until} />.
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
    <Confirm
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
    </Confirm>
  );
}
