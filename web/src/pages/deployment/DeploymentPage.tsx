import { Card, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { deploymentQuery } from "@/data/deployments";
import { RUN_LOOK } from "@/theme/status";
import { Commit } from "@/ui/Commit";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { When } from "@/ui/When";

export function DeploymentPage() {
  const { org, deploymentId } = useParams({ from: "/o/$org/deployments/$deploymentId" });
  const deployment = useQuery(deploymentQuery(org, deploymentId));
  return (
    <Query of={deployment}>
      {found => (
        <Page
          title={`Deployment #${found.number}`}
          lead={
            <>
              <Commit id={found.commitId} /> by {found.actor.name}, <When at={found.createdAt} />
            </>
          }
          actions={<Status look={RUN_LOOK[found.status]} size="lg" />}
        >
          <Stack gap="sm">
            {found.stages.map(stage => (
              <Card key={stage.name} padding="md">
                <Group justify="space-between">
                  <Text fw={600}>{stage.name}</Text>
                  <Status look={RUN_LOOK[stage.status]} />
                </Group>
              </Card>
            ))}
          </Stack>
        </Page>
      )}
    </Query>
  );
}
