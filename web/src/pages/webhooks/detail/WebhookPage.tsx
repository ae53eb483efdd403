import { Alert, Badge, Button, Card, Code, Group, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconSend } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Webhook } from "@/api/types";
import { usePermission } from "@/data/me";
import { useChangeWebhook, usePingWebhook, webhookQuery } from "@/data/webhooks";
import { webhookStatusStyle } from "@/theme/status";
import { escapeBidi } from "@/ui/escape";
import { formatEventKind } from "@/ui/events/eventKind";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { toast } from "@/ui/toast";
import { DeleteWebhookDialog } from "../dialogs/DeleteWebhookDialog";
import { DisableWebhookDialog } from "../dialogs/DisableWebhookDialog";
import { EditWebhookDialog } from "../dialogs/EditWebhookDialog";
import { RotateSecretDialog } from "../dialogs/RotateSecretDialog";
import { DeliveryTable } from "./DeliveryTable";

const ROUTE = "/o/$org/settings/webhooks/$webhookId";

/** One webhook: its events and deliveries. */
export function WebhookPage() {
  const { org, webhookId } = useParams({ from: ROUTE });
  const webhook = useQuery(webhookQuery(org, webhookId));
  return (
    <QueryResult of={webhook}>
      {found => (
        <Page
          title={found.name}
          lead={found.url}
          actions={<StatusBadge status={webhookStatusStyle(found)} size="lg" />}
        >
          {found.deactivated && (
            <Alert color="lantern" icon={<IconAlertTriangle />} title="Disabled after too many failures">
              <RelativeTime at={found.deactivated.at} />. {found.deactivated.reason}
            </Alert>
          )}
          <Group gap={6}>
            {found.kinds.map(kind => (
              <Badge key={kind} color="gray" c="inherit">
                {formatEventKind(kind)}
              </Badge>
            ))}
          </Group>
          {found.oldSecretUntil && Date.parse(found.oldSecretUntil) > Date.now() && (
            <Text size="sm" c="dimmed">
              Deliveries are also signed with the previous secret, which expires{" "}
              <RelativeTime at={found.oldSecretUntil} />
            </Text>
          )}
          <WebhookActions webhook={found} />
          <Card component="section" aria-label="Deliveries">
            <Title order={2} mb="sm">
              Deliveries
            </Title>
            <DeliveryTable webhook={found} />
          </Card>
        </Page>
      )}
    </QueryResult>
  );
}

function WebhookActions({ webhook }: { webhook: Webhook }) {
  const { org, webhookId } = useParams({ from: ROUTE });
  const mayWrite = usePermission("webhooks:write");
  const ping = usePingWebhook(org, webhookId);
  const change = useChangeWebhook(org, webhookId);
  const [open, setOpen] = useState<"change" | "disable" | "rotate" | "remove" | null>(null);
  const close = () => setOpen(null);
  if (!mayWrite) return null;
  const answer = ping.data;
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <Button
          leftSection={<IconSend size={16} />}
          variant="default"
          loading={ping.isPending}
          onClick={() => ping.mutate(undefined, { onError: toast.problem })}
        >
          Send test request
        </Button>
        <Button
          variant="default"
          loading={change.isPending}
          onClick={() =>
            webhook.isActive
              ? setOpen("disable")
              : change.mutate(
                  { isActive: true },
                  { onSuccess: () => toast.success("Webhook enabled"), onError: toast.problem },
                )
          }
        >
          {webhook.isActive ? "Disable" : "Enable"}
        </Button>
        <Button variant="default" onClick={() => setOpen("change")}>
          Edit
        </Button>
        <Button variant="default" onClick={() => setOpen("rotate")}>
          Rotate secret
        </Button>
        <Button variant="default" onClick={() => setOpen("remove")}>
          Delete
        </Button>
      </Group>
      {answer && (
        <Text role="status" size="sm" c={answer.isAccepted ? "var(--berth-good)" : "var(--berth-bad)"}>
          {answer.isAccepted ? "Test succeeded" : "Test failed"}: {answer.error ?? `status ${answer.status}`},{" "}
          {answer.durationMs} ms
        </Text>
      )}
      {answer?.excerpt && (
        <Code block tabIndex={0} aria-label="Response" style={{ overflow: "auto", maxHeight: 200 }}>
          {escapeBidi(answer.excerpt)}
        </Code>
      )}
      {open === "change" && <EditWebhookDialog webhook={webhook} onClose={close} />}
      {open === "disable" && <DisableWebhookDialog webhook={webhook} onClose={close} />}
      {open === "rotate" && <RotateSecretDialog webhook={webhook} onClose={close} />}
      {open === "remove" && <DeleteWebhookDialog webhook={webhook} onClose={close} />}
    </Stack>
  );
}
