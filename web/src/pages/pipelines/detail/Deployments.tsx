import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { Deployment, Pagination, Pipeline } from "@/api/types";
import { useNow } from "@/data/now";
import { formatTrigger, isOver, seconds } from "@/format/run";
import { duration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { Commit } from "@/ui/Commit";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";
import { Query } from "@/ui/Query";
import { Status, StatusText } from "@/ui/Status";
import { When } from "@/ui/When";

type Page = { data: Deployment[]; pagination: Pagination };
type Props = { org: string; pipeline: Pipeline; of: UseInfiniteQueryResult<{ pages: Page[] }> };

/** Deployments of a pipeline, newest first. */
export function Deployments({ org, pipeline, of }: Props) {
  return (
    <Query of={of}>
      {({ pages }) => {
        const all = pages.flatMap(page => page.data);
        if (all.length === 0) {
          return (
            <Empty icon={IconRocket} title="No deployments yet">
              {pipeline.tracks
                ? `Push a commit to ${pipeline.tracks}, or click Deploy.`
                : "Click Deploy to start one."}
            </Empty>
          );
        }
        return (
          <Stack gap="xs">
            {all.map(deployment => (
              <Row key={deployment.id} org={org} deployment={deployment} />
            ))}
            {of.hasNextPage && (
              <Button
                variant="default"
                mx="auto"
                loading={of.isFetchingNextPage}
                onClick={() => of.fetchNextPage()}
              >
                Load more
              </Button>
            )}
          </Stack>
        );
      }}
    </Query>
  );
}

function Row({ org, deployment }: { org: string; deployment: Deployment }) {
  const took = seconds(deployment, useNow());
  return (
    <Card padding="sm">
      <Group justify="space-between" gap="sm">
        <Group gap="sm" style={{ minWidth: 0, flex: "1 1 18rem" }} wrap="nowrap">
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: deployment.id }}
            fw={600}
            style={{ flex: "none" }}
          >
            {deployment.envName ? `${deployment.envName} ` : ""}#{deployment.number}
          </Link>
          <div style={{ minWidth: 0 }}>
            <Text size="sm" className="clamp">
              <Commit id={deployment.resolvedCommitId ?? deployment.commitId} />
              {deployment.reason && ` ${deployment.reason}`}
            </Text>
            <Text size="xs" c="dimmed" className="wrap" component="div">
              {formatTrigger(deployment)} <When at={deployment.createdAt} />
              {took !== null && `, ${isOver(deployment.status) ? "took" : "running for"} ${duration(took)}`}
              {deployment.bypass && ", all gates bypassed"}
            </Text>
          </div>
        </Group>
        <Group gap="md">
          <Group gap="sm" visibleFrom="md">
            {deployment.stages.map(stage => (
              <Text key={stage.name} size="xs" component="span">
                <StatusText status={RUN_STATUS_STYLE[stage.status]} label={stage.name} />
              </Text>
            ))}
          </Group>
          <Status status={RUN_STATUS_STYLE[deployment.status]} />
        </Group>
      </Group>
    </Card>
  );
}
