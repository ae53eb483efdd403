import { Alert, Card, Group, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { repositoryQuery } from "@/data/repositories";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { ConnectionCard } from "./ConnectionCard";

/** One repository: its pipelines, the connection to its forge, and the deliveries of the forge. */
export function RepositoryPage() {
  const { org, repositoryId } = useParams({ from: "/o/$org/settings/repositories/$repositoryId" });
  const { connect } = useSearch({ from: "/o/$org/settings/repositories/$repositoryId" });
  const repository = useQuery(repositoryQuery(org, repositoryId));
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
        >
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
            {found.pipelines.length === 0 && <Text c="dimmed">No pipelines found</Text>}
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
          </Card>
          <ConnectionCard repositoryId={repositoryId} opensApp={connect === "app"} />
        </Page>
      )}
    </QueryResult>
  );
}
