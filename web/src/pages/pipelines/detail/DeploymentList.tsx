import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { Deployment, Pagination, Pipeline } from "@/api/types";
import { useNow } from "@/data/clock";
import { stageTargets } from "@/data/deploymentAccess";
import { useAccess } from "@/data/me";
import { may } from "@/data/permissions";
import { elapsedSeconds, formatTrigger, isFinished } from "@/format/run";
import { formatDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge, StatusText } from "@/ui/StatusBadge";

type Page = { data: Deployment[]; pagination: Pagination };
type Props = { org: string; pipeline: Pipeline; of: UseInfiniteQueryResult<{ pages: Page[] }> };

/** Deployments of a pipeline, newest first. */
export function DeploymentList({ org, pipeline, of }: Props) {
  const access = useAccess();
  const mayDeploy = stageTargets(pipeline).every(stage => may(access, "stages:deploy", stage));
  return (
    <QueryResult of={of}>
      {({ pages }) => {
        const all = pages.flatMap(page => page.data);
        if (all.length === 0) {
          return (
            <EmptyState icon={IconRocket} title="No deployments yet">
              {formatFirstStep(pipeline.tracks, mayDeploy)}
            </EmptyState>
          );
        }
        return (
          <Stack gap="xs">
            {all.map(deployment => (
              <DeploymentRow key={deployment.id} org={org} deployment={deployment} />
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
    </QueryResult>
  );
}

function DeploymentRow({ org, deployment }: { org: string; deployment: Deployment }) {
  const took = elapsedSeconds(deployment, useNow());
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
              <CommitId id={deployment.resolvedCommitId ?? deployment.commitId} />
              {deployment.reason && ` ${deployment.reason}`}
            </Text>
            <Text size="xs" c="dimmed" className="wrap" component="div">
              {formatTrigger(deployment)} <RelativeTime at={deployment.createdAt} />
              {took !== null &&
                `, ${isFinished(deployment.status) ? "took" : "running for"} ${formatDuration(took)}`}
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
          <StatusBadge status={RUN_STATUS_STYLE[deployment.status]} />
        </Group>
      </Group>
    </Card>
  );
}

function formatFirstStep(tracks: string | null | undefined, mayDeploy: boolean): string | null {
  if (tracks) return `Push a commit to ${tracks}${mayDeploy ? ", or click Deploy" : ""}.`;
  return mayDeploy ? "Click Deploy to start one." : null;
}
