import { Table, Text } from "@mantine/core";
import { IconWebhook } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Webhook } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { webhooksQuery } from "@/data/webhooks";
import { webhookStatusStyle } from "@/theme/status";
import { EmptyState } from "@/ui/EmptyState";
import { formatEventKind } from "@/ui/events/eventKind";
import { Link } from "@/ui/Link";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
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
      columns={["Name", "Events", "Status"]}
      row={webhook => <WebhookRow webhook={webhook} />}
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

function WebhookRow({ webhook }: { webhook: Webhook }) {
  const org = useOrg();
  const { id, name, url, kinds, pending } = webhook;
  const [first = "", ...more] = kinds;
  return (
    <Table.Tr aria-label={name}>
      <Table.Td>
        <Link to="/o/$org/settings/webhooks/$webhookId" params={{ org, webhookId: id }} fw={550}>
          {name}
        </Link>
        <Text size="sm" c="dimmed" className="wrap">
          {url}
        </Text>
      </Table.Td>
      <LabelledCell of="Events">
        {formatEventKind(first)}
        {more.length > 0 && ` and ${more.length} more`}
      </LabelledCell>
      <LabelledCell of="Status">
        <StatusBadge status={webhookStatusStyle(webhook)} />
        {pending > 0 && (
          <Text span size="sm" ml={6}>
            {pending} pending
          </Text>
        )}
      </LabelledCell>
      <ActionsCell />
    </Table.Tr>
  );
}
