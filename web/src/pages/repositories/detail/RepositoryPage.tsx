import { Alert, Button, Card, Group, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useOrg, usePermission } from "@/data/me";
import { repositoryQuery, useSyncRepository } from "@/data/repositories";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { toast } from "@/ui/toast";
import { SyncFindings } from "../SyncFindings";
import { ConnectionCard } from "./ConnectionCard";
import { FirstSync } from "./FirstSync";

/** Fallback for missed events. */
const FIRST_SYNC_POLL_MS = 2_000;

/** One repository: its pipelines, the connection to its forge, and the deliveries of the forge. */
export function RepositoryPage() {
  const { org, repositoryId } = useParams({ from: "/o/$org/settings/repositories/$repositoryId" });
  const { connect, added } = useSearch({ from: "/o/$org/settings/repositories/$repositoryId" });
  const repository = useQuery({
    ...repositoryQuery(org, repositoryId),
    refetchInterval: query => (added && !query.state.data?.lastSyncedAt ? FIRST_SYNC_POLL_MS : false),
  });
  return (
    <QueryResult of={repository}>
      {found => (
        <Page
          title={found.url}
          lead={
            found.lastSyncedAt ? (
              <>
                Synced <RelativeTime at={found.lastSyncedAt} />
              </>
            ) : (
              "Not synced yet"
            )
          }
          actions={<SyncButton repositoryId={repositoryId} />}
        >
          {added && <FirstSync repository={found} />}
          {found.error && (
            <Alert color="buoy" icon={<IconAlertTriangle />} title="Last sync failed">
              <Text size="sm" className="wrap">
                {found.error}
              </Text>
            </Alert>
          )}
          {found.forgeError && (
            <Alert color="buoy" icon={<IconAlertTriangle />} title="The forge does not show all deployments">
              <Text size="sm" className="wrap">
                {found.forgeError}
              </Text>
            </Alert>
          )}
          <Card component="section" aria-label="Pipelines">
            <Title order={2} mb="sm">
              Pipelines
            </Title>
            {found.pipelines.length === 0 && found.problems.length === 0 && !found.lastSyncedAt && (
              <Text c="dimmed">None yet</Text>
            )}
            <Group gap="sm">
              {found.pipelines.map(each => (
                <Link
                  key={each.id}
                  to="/o/$org/pipelines/$pipelineId"
                  params={{ org, pipelineId: each.slug }}
                >
                  {each.slug}
                </Link>
              ))}
            </Group>
            <SyncFindings repository={found} />
          </Card>
          <ConnectionCard repositoryId={repositoryId} opensApp={connect === "app"} />
        </Page>
      )}
    </QueryResult>
  );
}

function SyncButton({ repositoryId }: { repositoryId: string }) {
  const mayWrite = usePermission("repositories:write");
  const sync = useSyncRepository(useOrg());
  if (!mayWrite) return null;
  return (
    <Button
      variant="default"
      leftSection={<IconRefresh size={16} />}
      loading={sync.isPending}
      onClick={() =>
        sync.mutate(repositoryId, {
          onSuccess: () => toast.success("Sync started"),
          onError: toast.problem,
        })
      }
    >
      Sync now
    </Button>
  );
}
