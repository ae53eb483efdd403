import { Text } from "@mantine/core";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useChangeWebhook } from "@/data/webhooks";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

export function DisableWebhookDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Disable ${webhook.name}?`}
      action="Disable webhook"
      danger
      mutation={useChangeWebhook(useOrg(), webhook.id)}
      input={{ isActive: false }}
      success={() => "Webhook disabled"}
    >
      <Text size="sm">
        Events are no longer sent, and pending deliveries are discarded. After you enable it again, it sends
        only new events.
      </Text>
    </ConfirmDialog>
  );
}
