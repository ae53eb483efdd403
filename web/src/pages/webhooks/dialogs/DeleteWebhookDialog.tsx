import { Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useDeleteWebhook } from "@/data/webhooks";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

export function DeleteWebhookDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const org = useOrg();
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Delete ${webhook.name}?`}
      action="Delete webhook"
      danger
      mutation={useDeleteWebhook(org)}
      input={webhook.id}
      success={() => `${webhook.name} deleted`}
      onSuccess={() => navigate({ to: "/o/$org/settings/webhooks", params: { org } })}
    >
      <Text size="sm">
        {webhook.url} receives no further events. Pending deliveries are discarded, and past ones are no
        longer listed.
      </Text>
    </ConfirmDialog>
  );
}
