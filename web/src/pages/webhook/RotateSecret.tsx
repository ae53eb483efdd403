import { Text } from "@mantine/core";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRotateSecret } from "@/data/webhooks";
import { Confirm } from "@/ui/Confirm";
import { When } from "@/ui/When";
import { SecretOnce } from "../webhooks/SecretOnce";

/** Another signing secret; the one before is used beside it for a while, so that nothing is lost meanwhile. */
export function RotateSecret({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useRotateSecret(useOrg(), webhook.id);
  if (rotate.data) {
    const until = rotate.data.oldSecretUntil;
    return (
      <SecretOnce secret={rotate.data.secret ?? ""} onClose={onClose}>
        Give it to the receiver.{" "}
        {until && (
          <>
            Deliveries are signed with the old one too, which ends <When at={until} />.
          </>
        )}
      </SecretOnce>
    );
  }
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`A new secret for ${webhook.name}`}
      action="Make a new secret"
      pending={rotate.isPending}
      error={rotate.error}
      onConfirm={() => rotate.mutate(undefined)}
    >
      <Text size="sm">
        The receiver checks signatures with it. For a day deliveries are signed with both, so there is time to
        change it there.
      </Text>
    </Confirm>
  );
}
