import { Card, Group, SimpleGrid, Text } from "@mantine/core";
import { IconAnchor } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Environment, Pipeline } from "@/api/types";
import { environmentsQuery } from "@/data/environments";
import { ENVIRONMENT_STATUS_STYLE, LOCK_STATUS_STYLE } from "@/theme/status";
import { Commit } from "@/ui/Commit";
import { Snippet } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { Since } from "@/ui/When";

const YAML = `  ephemeral_environments:
    qa-1:
      ttl: 8h
`;

type Props = { org: string; pipeline: Pipeline };

/** Shared environments of a pipeline and their holders. */
export function Environments({ org, pipeline }: Props) {
  const environments = useQuery(environmentsQuery(org, pipeline.slug));
  return (
    <Query of={environments}>
      {all =>
        all.length === 0 ? (
          <Empty icon={IconAnchor} title="No shared environments yet">
            <Text c="dimmed">Add this under pipeline: in the definition:</Text>
            <Snippet text={YAML} label="Example environment" />
          </Empty>
        ) : (
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            {all.map(each => (
              <Berth key={each.id} org={org} pipelineId={pipeline.slug} environment={each} />
            ))}
          </SimpleGrid>
        )
      }
    </Query>
  );
}

function Berth({
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
        <Status status={style} />
      </Group>
      <Text size="sm" c="dimmed" component="div" mt={4} className="wrap">
        {lock ? (
          <>
            Held by {lock.holder.name} <Since at={lock.claimedAt} />
            {lock.context && `: “${lock.context}”`}
          </>
        ) : (
          "Free"
        )}
        {queueLength > 0 && `, ${queueLength} in queue`}
      </Text>
      {deployedCommitId && (
        <Text size="sm" mt={4}>
          <Commit id={deployedCommitId} />
        </Text>
      )}
    </Card>
  );
}
