import { Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { environmentQuery, type Where } from "@/data/environments";
import { pipelineQuery } from "@/data/pipelines";
import { ENVIRONMENT_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { EnvironmentActions } from "../EnvironmentActions";
import { EnvironmentSession } from "../EnvironmentSession";
import { Facts } from "./Facts";
import { History } from "./History";
import { Queue } from "./Queue";
import { SessionDeployments } from "./SessionDeployments";
import { Usage } from "./Usage";

/** One shared environment: session, queue, usage and session history. */
export function EnvironmentPage() {
  const { org, pipelineId, envName } = useParams({ from: "/o/$org/environments/$pipelineId/$envName" });
  const where: Where = { org, pipelineId, envName };
  const environment = useQuery(environmentQuery(where));
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return (
    <Query of={environment}>
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
          actions={<Status status={ENVIRONMENT_STATUS_STYLE[found.state]} size="lg" />}
        >
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <Card component="section" aria-label="Session">
              <Stack h="100%" justify="space-between">
                <EnvironmentSession where={where} environment={found} />
                <EnvironmentActions where={where} environment={found} />
              </Stack>
            </Card>
            <Facts environment={found} />
          </SimpleGrid>
          {found.lock && <SessionDeployments where={where} sessionId={found.lock.sessionId} />}
          {found.queueLength > 0 && <Queue where={where} />}
          <Usage where={where} />
          <Card component="section" aria-label="Session history">
            <Title order={2}>Session history</Title>
            <Text c="dimmed" size="sm" mb="md">
              Past sessions, newest first
            </Text>
            <History where={where} />
          </Card>
        </Page>
      )}
    </Query>
  );
}
