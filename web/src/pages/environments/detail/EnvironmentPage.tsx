import { Button, Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { Environment } from "@/api/types";
import { type EnvironmentKey, environmentQuery } from "@/data/environments";
import { pipelineQuery } from "@/data/pipelines";
import { ENVIRONMENT_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { StatusBadge } from "@/ui/StatusBadge";
import { EnvironmentActions } from "../EnvironmentActions";
import { SessionSummary } from "../SessionSummary";
import { ConfigurationCard, listVars } from "./ConfigurationCard";
import { QueueCard } from "./QueueCard";
import { SessionDeployments } from "./SessionDeployments";
import { SessionHistory } from "./SessionHistory";
import { UsageSection } from "./UsageSection";

/** One shared environment: session, queue, usage and session history. */
export function EnvironmentPage() {
  const { org, pipelineId, envName } = useParams({ from: "/o/$org/environments/$pipelineId/$envName" });
  const where: EnvironmentKey = { org, pipelineId, envName };
  const environment = useQuery(environmentQuery(where));
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return (
    <QueryResult of={environment}>
      {found => (
        <Page
          title={envName}
          lead={
            <Group gap={6}>
              Shared environment of
              <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId }}>
                {pipeline.data?.name ?? pipelineId}
              </Link>
            </Group>
          }
          actions={
            <>
              <StatusBadge status={ENVIRONMENT_STATUS_STYLE[found.state]} size="lg" />
              <SiteButton environment={found} />
            </>
          }
        >
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <Card component="section" aria-label="Session">
              <Stack h="100%" justify="space-between">
                <SessionSummary where={where} environment={found} />
                <EnvironmentActions where={where} environment={found} pipeline={pipeline.data?.slug} />
              </Stack>
            </Card>
            <ConfigurationCard environment={found} />
          </SimpleGrid>
          {found.queueLength > 0 && <QueueCard where={where} />}
          {found.lock && <SessionDeployments where={where} sessionId={found.lock.sessionId} />}
          <UsageSection where={where} />
          <Card component="section" aria-label="Session history">
            <Title order={2}>Session history</Title>
            <Text c="dimmed" size="sm" mb="md">
              Newest first
            </Text>
            <SessionHistory where={where} />
          </Card>
        </Page>
      )}
    </QueryResult>
  );
}

/** Opens the first web address in the environment's configuration. */
function SiteButton({ environment }: { environment: Environment }) {
  const site = listVars(environment).find(each => each.isWebAddress);
  if (!site) return null;
  return (
    <Button
      component="a"
      href={site.value}
      target="_blank"
      rel="noopener noreferrer"
      variant="default"
      leftSection={<IconExternalLink size={16} />}
    >
      Open site
    </Button>
  );
}
