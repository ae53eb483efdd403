import { Card, Group, Stack, Text } from "@mantine/core";
import { IconRoute } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useOrg } from "@/data/me";
import { pipelinesQuery } from "@/data/pipelines";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";

export function Pipelines() {
  const org = useOrg();
  const filter = useSearch({ from: "/o/$org/pipelines" });
  const pipelines = useQuery(pipelinesQuery(org, filter));
  return (
    <Page title="Pipelines">
      <Query of={pipelines}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty icon={IconRoute} title="No pipelines here">
              They come from `.berth/NAME/pipeline.yaml` in your repositories.
            </Empty>
          ) : (
            <Stack gap="sm">
              {data.map(each => (
                <Card key={each.id} padding="md">
                  <Group justify="space-between">
                    <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId: each.slug }} fw={600}>
                      {each.name}
                    </Link>
                    <Text c="dimmed">{each.stages.map(stage => stage.name).join(" → ")}</Text>
                  </Group>
                </Card>
              ))}
            </Stack>
          )
        }
      </Query>
    </Page>
  );
}
