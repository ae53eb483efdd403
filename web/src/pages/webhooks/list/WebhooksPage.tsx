import { Card, Group, Text } from "@mantine/core";
import { IconWebhook } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useOrg, usePermission } from "@/data/me";
import { webhooksQuery } from "@/data/webhooks";
import { webhookStatusStyle } from "@/theme/status";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { SettingsList } from "@/ui/lists/SettingsList";
import { StatusBadge } from "@/ui/StatusBadge";
import { NewWebhookDialog } from "../dialogs/NewWebhookDialog";

export function WebhooksPage() {
  const org = useOrg();
  const mayWrite = usePermission("webhooks:write");
  const webhooks = useQuery(webhooksQuery(org));
  const [isAdding, setAdding] = useState(false);
  return (
    <SettingsList
      title="Webhooks"
      lead="Send signed HTTP requests or chat messages for events. Delivered at least once."
      add={mayWrite && { label: "Create webhook", onClick: () => setAdding(true) }}
      query={webhooks}
      row={webhook => (
        <Card padding="md" component="article" aria-label={webhook.name}>
          <Group justify="space-between">
            <div style={{ minWidth: 0 }}>
              <Link
                to="/o/$org/settings/webhooks/$webhookId"
                params={{ org, webhookId: webhook.id }}
                fw={600}
              >
                {webhook.name}
              </Link>
              <Text size="sm" c="dimmed" className="wrap">
                {webhook.url}
              </Text>
            </div>
            <Group gap="sm">
              {webhook.pending > 0 && <Text size="sm">{webhook.pending} pending</Text>}
              <StatusBadge status={webhookStatusStyle(webhook)} />
            </Group>
          </Group>
        </Card>
      )}
      empty={
        <EmptyState icon={IconWebhook} title="No webhooks yet">
          Create one to send deployments, takeovers or approvals to another service.
        </EmptyState>
      }
    >
      {isAdding && <NewWebhookDialog onClose={() => setAdding(false)} />}
    </SettingsList>
  );
}
