import { Card, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { pipelineQuery } from "@/data/pipelines";
import { Commit } from "@/ui/Commit";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Since } from "@/ui/When";

export function PipelinePage() {
  const { org, pipelineId } = useParams({ from: "/o/$org/pipelines/$pipelineId" });
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return (
    <Query of={pipeline}>
      {found => (
        <Page title={found.name} lead={found.tracks ? `follows ${found.tracks}` : undefined}>
          <Stack gap="sm">
            {found.stages.map(({ name, current }) => (
              <Card key={name} padding="md">
                <Group justify="space-between">
                  <Text fw={600}>{name}</Text>
                  {current ? (
                    <Link
                      to="/o/$org/deployments/$deploymentId"
                      params={{ org, deploymentId: current.deploymentId }}
                    >
                      <Commit id={current.commitId} /> <Since at={current.at} />
                    </Link>
                  ) : (
                    <Text c="dimmed">nothing yet</Text>
                  )}
                </Group>
              </Card>
            ))}
          </Stack>
        </Page>
      )}
    </Query>
  );
}
