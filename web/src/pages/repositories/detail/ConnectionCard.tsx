import { Alert, Anchor, Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconHourglass } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { RepositoryConnection } from "@/api/types";
import { connectionQuery, hookDeliveriesQuery, useTestConnection } from "@/data/connections";
import { useOrg, usePermission } from "@/data/me";
import type { StatusStyle } from "@/theme/status";
import { Snippet } from "@/ui/Copy";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";
import { toast } from "@/ui/toast";
import { ConnectDialog, InstructionList } from "../dialogs/ConnectDialog";
import { DisconnectDialog } from "../dialogs/DisconnectDialog";
import { FORGE_LABELS } from "../forgeLabels";
import { HookDeliveryTable } from "./HookDeliveryTable";

const VERIFIED: StatusStyle = { label: "connected", tone: "good", icon: IconCheck };
const WAITING: StatusStyle = { label: "waiting", tone: "warn", icon: IconHourglass };

type CardProps = {
  repositoryId: string;
  /** Opens the dialog to connect the repository through a GitHub App. */
  opensApp?: boolean;
};

/** The connection of a repository to its forge, and the deliveries of the forge. */
export function ConnectionCard({ repositoryId, opensApp = false }: CardProps) {
  const mayWrite = usePermission("repositories:write");
  const connection = useQuery(connectionQuery(useOrg(), repositoryId));
  // Open until the user closes it, also after the connection exists: it shows the secret.
  const [isConnecting, setConnecting] = useState(false);
  const [isAppOpen, setAppOpen] = useState(opensApp);
  return (
    <>
      <Card component="section" aria-label="Connection">
        <Title order={2} mb={4}>
          Connection
        </Title>
        <Text c="dimmed" size="sm" mb="sm">
          A connected forge notifies Berth about pushes and pull requests
        </Text>
        <QueryResult of={connection}>
          {found =>
            found ? (
              <ConnectionSummary repositoryId={repositoryId} connection={found} />
            ) : (
              <Group justify="space-between">
                <Text>Not connected</Text>
                {mayWrite && <Button onClick={() => setConnecting(true)}>Connect</Button>}
              </Group>
            )
          }
        </QueryResult>
      </Card>
      {connection.data && (
        <Card component="section" aria-label="Deliveries">
          <Title order={2} mb="sm">
            Deliveries
          </Title>
          <HookDeliveryTable repositoryId={repositoryId} />
        </Card>
      )}
      {isConnecting && <ConnectDialog repositoryId={repositoryId} onClose={() => setConnecting(false)} />}
      {isAppOpen && mayWrite && connection.data === null && (
        <ConnectDialog repositoryId={repositoryId} way="app" onClose={() => setAppOpen(false)} />
      )}
    </>
  );
}

type SummaryProps = { repositoryId: string; connection: RepositoryConnection };

function ConnectionSummary({ repositoryId, connection }: SummaryProps) {
  const org = useOrg();
  const mayWrite = usePermission("repositories:write");
  const test = useTestConnection(org, repositoryId);
  const last = useQuery(hookDeliveriesQuery(org, repositoryId)).data?.data[0];
  const [isDisconnecting, setDisconnecting] = useState(false);
  const forge = FORGE_LABELS[connection.forge];
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text component="div">
          {connection.verifiedAt ? (
            <>
              <StatusText status={VERIFIED} label={`Connected to ${forge}`} />
              {last && (
                <>
                  , last delivery <RelativeTime at={last.receivedAt} />
                </>
              )}
            </>
          ) : (
            <StatusText status={WAITING} label={`Waiting for the first delivery from ${forge}`} />
          )}
        </Text>
        {mayWrite && (
          <Group gap="xs">
            <Button
              variant="default"
              loading={test.isPending}
              onClick={() =>
                test.mutate(undefined, {
                  onSuccess: ({ isRequested, detail }) =>
                    isRequested
                      ? toast.success("Test delivery requested")
                      : toast.warning(detail ?? "The forge cannot send a test delivery"),
                  onError: toast.problem,
                })
              }
            >
              Send test delivery
            </Button>
            <Button variant="default" onClick={() => setDisconnecting(true)}>
              Disconnect
            </Button>
          </Group>
        )}
      </Group>
      {connection.error && (
        <Alert color="buoy" icon={<IconAlertTriangle />} title="The webhook could not be created">
          <Text size="sm" className="wrap">
            {connection.error}
          </Text>
        </Alert>
      )}
      {connection.app && (
        <Text size="sm" c="dimmed">
          Through the GitHub App {connection.app.name},{" "}
          <Anchor href={connection.app.installUrl} inherit>
            choose its repositories
          </Anchor>
        </Text>
      )}
      {!connection.verifiedAt && !connection.app && (
        <>
          <Snippet label="URL of the webhook" text={connection.hookUrl} />
          <InstructionList of={connection} />
        </>
      )}
      {isDisconnecting && (
        <DisconnectDialog
          repositoryId={repositoryId}
          connection={connection}
          onClose={() => setDisconnecting(false)}
        />
      )}
    </Stack>
  );
}
