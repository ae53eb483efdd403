import { Card, Group, Text } from "@mantine/core";
import { IconWebhook } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMay, useOrg } from "@/data/me";
import { webhooksQuery } from "@/data/webhooks";
import { webhookStatusStyle } from "@/theme/status";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";
import { SettingsList } from "@/ui/lists/SettingsList";
import { Status } from "@/ui/Status";
import { NewWebhook } from "../dialogs/NewWebhook";

export function Webhooks() {
  const org = useOrg();
  const mayWrite = useMay("webhooks:write");
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
              <Status status={webhookStatusStyle(webhook)} />
            </Group>
          </Group>
        </Card>
      )}
      empty={
        <Empty icon={IconWebhook} title="No webhooks yet">
          Create one to send deployments, takeovers or approvals to another service.
        </Empty>
      }
    >
      {isAdding && <NewWebhook onClose={() => setAdding(false)} />}
    </SettingsList>
  );
}
