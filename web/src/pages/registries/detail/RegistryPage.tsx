import { Alert, Card, Code, Group, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { StepRegistry } from "@/api/types";
import { registryQuery } from "@/data/registries";
import { REGISTRY_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { RegistryActions } from "./RegistryActions";
import { RegistryBuilds } from "./RegistryBuilds";
import { RegistrySteps } from "./RegistrySteps";

/** One step registry: version in use, steps and builds. */
export function RegistryPage() {
  const { org, registryId } = useParams({ from: "/o/$org/settings/custom-steps/$registryId" });
  const registry = useQuery(registryQuery(org, registryId));
  return (
    <QueryResult of={registry}>
      {found => (
        <Page
          title={found.name}
          lead={<span className="wrap">{found.url}</span>}
          actions={
            <div role="status">
              <StatusBadge status={REGISTRY_STATUS_STYLE[found.status]} size="lg" />
            </div>
          }
        >
          {found.error && (
            <Alert
              color="buoy"
              radius="lg"
              icon={<IconAlertTriangle />}
              title="The newest commit could not be built"
            >
              <Text size="sm" className="wrap">
                {found.error}
              </Text>
              {found.lastGood && <Text size="sm">Pipelines keep using the version below.</Text>}
            </Alert>
          )}
          <RegistryActions org={org} registry={found} />
          <VersionCard org={org} registry={found} />
          <RegistrySteps org={org} registry={found} />
          <RegistryBuilds org={org} registry={found} />
        </Page>
      )}
    </QueryResult>
  );
}

function VersionCard({ org, registry }: { org: string; registry: StepRegistry }) {
  const { lastGood, usedBy, ref, commit, lastSyncedAt } = registry;
  return (
    <Card component="section" aria-label="Version in use">
      <Title order={2} mb={4}>
        Version in use
      </Title>
      <Stack gap={4}>
        {lastGood ? (
          <Text size="sm" className="wrap" component="div">
            <CommitId id={lastGood.commit} />
            {lastGood.refs.length > 0 && <>, also {lastGood.refs.join(", ")}</>}, built{" "}
            <RelativeTime at={lastGood.builtAt} /> (build #{lastGood.build})
            <Text size="xs" c="dimmed" className="wrap">
              <code>{lastGood.digest}</code>
            </Text>
          </Text>
        ) : (
          <Text size="sm">No successful build yet</Text>
        )}
        <Text size="sm" c="dimmed" className="wrap">
          Tracks {ref ? <Code>{ref}</Code> : "the default branch"}
          {commit && commit !== lastGood?.commit && (
            <>
              , now at <CommitId id={commit} />
            </>
          )}
          {lastSyncedAt && (
            <>
              , synced <RelativeTime at={lastSyncedAt} />
            </>
          )}
        </Text>
        {usedBy.length > 0 && (
          <Group gap="sm">
            <Text size="sm" c="dimmed">
              Used by
            </Text>
            {usedBy.map(each => (
              <Link
                key={each.id}
                to="/o/$org/pipelines/$pipelineId"
                params={{ org, pipelineId: each.slug }}
                size="sm"
              >
                {each.slug}
              </Link>
            ))}
          </Group>
        )}
      </Stack>
    </Card>
  );
}
