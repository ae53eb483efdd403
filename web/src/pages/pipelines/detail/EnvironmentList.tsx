import { Card, Group, SimpleGrid, Text } from "@mantine/core";
import { IconAnchor } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Environment, Pipeline } from "@/api/types";
import { environmentsQuery } from "@/data/environments";
import { formatHolder } from "@/format/holder";
import { ENVIRONMENT_STATUS_STYLE, LOCK_STATUS_STYLE } from "@/theme/status";
import { Snippet } from "@/ui/Copy";
import { CommitLine } from "@/ui/commits/CommitLine";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { PullRequestName } from "@/ui/pullRequests/PullRequestName";
import { QueryResult } from "@/ui/QueryResult";
import { SinceTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";

const ENVIRONMENT_SNIPPET = `  ephemeral_environments:
    qa-1:
      ttl: 8h
`;

type Props = { org: string; pipeline: Pipeline };

/** Shared environments of a pipeline and their holders. */
export function EnvironmentList({ org, pipeline }: Props) {
  const environments = useQuery(environmentsQuery(org, pipeline.slug));
  return (
    <QueryResult of={environments}>
      {all =>
        all.length === 0 ? (
          <EmptyState icon={IconAnchor} title="No shared environments yet">
            <Text c="dimmed">Add this under pipeline: in the definition:</Text>
            <Snippet text={ENVIRONMENT_SNIPPET} label="Example environment" />
          </EmptyState>
        ) : (
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            {all.map(each => (
              <EnvironmentSummary key={each.id} org={org} pipelineId={pipeline.slug} environment={each} />
            ))}
          </SimpleGrid>
        )
      }
    </QueryResult>
  );
}

function EnvironmentSummary({
  org,
  pipelineId,
  environment,
}: {
  org: string;
  pipelineId: string;
  environment: Environment;
}) {
  const { lock, state, envName, queueLength, deployedCommitId } = environment;
  const isOdd = state === "contested" || state === "resetting" || state === "unknown";
  const style = isOdd
    ? ENVIRONMENT_STATUS_STYLE[state]
    : lock
      ? LOCK_STATUS_STYLE.held
      : LOCK_STATUS_STYLE.free;
  return (
    <Card padding="md">
      <Group justify="space-between" wrap="nowrap">
        <Link
          to="/o/$org/environments/$pipelineId/$envName"
          params={{ org, pipelineId, envName }}
          fw={600}
          className="clamp"
        >
          {envName}
        </Link>
        <StatusBadge status={style} />
      </Group>
      <Text size="sm" c="dimmed" component="div" mt={4} className="wrap">
        {lock ? (
          <>
            Held by {formatHolder(lock)} <SinceTime at={lock.claimedAt} />
            {lock.context && `: “${lock.context}”`}
          </>
        ) : (
          "Free"
        )}
        {queueLength > 0 && `, ${queueLength} in queue`}
      </Text>
      {environment.pullRequest && <PullRequestName of={environment.pullRequest} />}
      {deployedCommitId && (
        <Text size="sm" mt={4} component="div">
          <CommitLine commitId={deployedCommitId} commit={environment.commit} />
        </Text>
      )}
    </Card>
  );
}
