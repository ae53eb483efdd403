import { Text } from "@mantine/core";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRotateSecret } from "@/data/webhooks";
import { Confirm } from "@/ui/Confirm";
import { ShownOnce } from "@/ui/ShownOnce";
import { When } from "@/ui/When";

/** Rotates the signing secret. Deliveries are signed with both for a while, so none is lost. */
export function RotateSecret({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useRotateSecret(useOrg(), webhook.id);
  if (rotate.data) {
    const until = rotate.data.oldSecretUntil;
    return (
      <ShownOnce
        title="Copy its secret now"
        note={
          <>
            Give it to the receiver.{" "}
            {until && (
              <>
                Deliveries are signed with the old one too, which ends <When at={until} />.
              </>
            )}
          </>
        }
        label="The webhook's secret"
        text={rotate.data.secret ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <Confirm
      onClose={onClose}
      title={`A new secret for ${webhook.name}`}
      action="Make a new secret"
      mutation={rotate}
      input={undefined}
    >
      <Text size="sm">
        The receiver checks signatures with it. For a day deliveries are signed with both, so there is time to
        change it there.
      </Text>
    </Confirm>
  );
}
