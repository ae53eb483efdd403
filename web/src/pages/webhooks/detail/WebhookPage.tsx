import { Alert, Badge, Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconSend } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Webhook } from "@/api/types";
import { useMay } from "@/data/me";
import { useChangeWebhook, usePing, webhookQuery } from "@/data/webhooks";
import { webhookStatusStyle } from "@/theme/status";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { toast } from "@/ui/toast";
import { When } from "@/ui/When";
import { ChangeWebhook } from "../dialogs/ChangeWebhook";
import { DeleteWebhook } from "../dialogs/DeleteWebhook";
import { formatKind } from "../dialogs/Kinds";
import { RotateSecret } from "../dialogs/RotateSecret";
import { Deliveries } from "./Deliveries";

const ROUTE = "/o/$org/settings/webhooks/$webhookId";

/** One webhook: its events and deliveries. */
export function WebhookPage() {
  const { org, webhookId } = useParams({ from: ROUTE });
  const webhook = useQuery(webhookQuery(org, webhookId));
  return (
    <Query of={webhook}>
      {found => (
        <Page
          title={found.name}
          lead={found.url}
          actions={<Status status={webhookStatusStyle(found)} size="lg" />}
        >
          {found.deactivated && (
            <Alert color="lantern" icon={<IconAlertTriangle />} title="Disabled after too many failures">
              <When at={found.deactivated.at} />. {found.deactivated.reason}
            </Alert>
          )}
          <Group gap={6}>
            {found.kinds.map(kind => (
              <Badge key={kind} color="gray" c="inherit">
                {formatKind(kind)}
              </Badge>
            ))}
          </Group>
          {found.oldSecretUntil && Date.parse(found.oldSecretUntil) > Date.now() && (
            <Text size="sm" c="dimmed">
              Deliveries are also signed with the previous secret, which expires{" "}
              <When at={found.oldSecretUntil} />
            </Text>
          )}
          <Actions webhook={found} />
          <Card component="section" aria-label="Deliveries">
            <Title order={2} mb="sm">
              Deliveries
            </Title>
            <Deliveries webhookId={webhookId} />
          </Card>
        </Page>
      )}
    </Query>
  );
}

function Actions({ webhook }: { webhook: Webhook }) {
  const { org, webhookId } = useParams({ from: ROUTE });
  const mayWrite = useMay("webhooks:write");
  const ping = usePing(org, webhookId);
  const change = useChangeWebhook(org, webhookId);
  const [open, setOpen] = useState<"change" | "rotate" | "remove" | null>(null);
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
            change.mutate(
              { isActive: !webhook.isActive },
              {
                onSuccess: () => toast.success(webhook.isActive ? "Webhook disabled" : "Webhook enabled"),
                onError: toast.problem,
              },
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
      {open === "change" && <ChangeWebhook webhook={webhook} onClose={close} />}
      {open === "rotate" && <RotateSecret webhook={webhook} onClose={close} />}
      {open === "remove" && <DeleteWebhook webhook={webhook} onClose={close} />}
    </Stack>
  );
}
