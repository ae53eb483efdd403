import { Button, Card, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { IconRocket } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Deployment, Pipeline } from "@/api/types";
import { useNow } from "@/data/clock";
import { stageTargets } from "@/data/deploymentAccess";
import { pipelineDeploymentsQuery } from "@/data/deployments";
import { isHash } from "@/data/knownRefs";
import { useAccess } from "@/data/me";
import { listReadableEnvironments, may } from "@/data/permissions";
import { elapsedSeconds, formatTrigger, isFinished } from "@/format/run";
import { capitalize } from "@/format/text";
import { formatDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { CommitLine } from "@/ui/commits/CommitLine";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge, StatusText } from "@/ui/StatusBadge";
import styles from "./pipeline.module.css";

const ROUTE = "/o/$org/pipelines/$pipelineId";
const STATUSES: Deployment["status"][] = [
  "running",
  "waiting",
  "queued",
  "succeeded",
  "failed",
  "cancelled",
  "superseded",
];

/** Longer names widen only their own row. */
const NAME_CHARS_MAX = 10;

type Props = { org: string; pipeline: Pipeline };

/** Deployments of a pipeline, newest first, filtered by stage or environment and by status. */
export function DeploymentList({ org, pipeline }: Props) {
  const access = useAccess();
  const { target, status } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const filter = { stage: target, status };
  const isFiltered = target !== undefined || status !== undefined;
  const deployments = useInfiniteQuery(
    pipelineDeploymentsQuery(org, pipeline.slug, isFiltered ? filter : {}),
  );
  const mayDeploy = stageTargets(pipeline).every(stage => may(access, "stages:deploy", stage));
  const apply = (change: { target?: string; status?: string }) =>
    navigate({ search: now => ({ ...now, ...change }), replace: true, resetScroll: false });
  const list = (
    <QueryResult of={deployments}>
      {({ pages }) => {
        const all = pages.flatMap(page => page.data);
        if (all.length === 0 && isFiltered) {
          return (
            <EmptyState icon={IconRocket} title="No matching deployments">
              <Button variant="default" onClick={() => apply({ target: undefined, status: undefined })}>
                Clear filters
              </Button>
            </EmptyState>
          );
        }
        if (all.length === 0) {
          return (
            <EmptyState icon={IconRocket} title="No deployments yet">
              {formatFirstStep(pipeline.tracks, mayDeploy)}
            </EmptyState>
          );
        }
        const nameChars = Math.min(NAME_CHARS_MAX, Math.max(...all.map(each => formatName(each).length)));
        return (
          <Stack gap="sm">
            <Card padding={0}>
              {all.map(deployment => (
                <DeploymentRow key={deployment.id} org={org} deployment={deployment} nameChars={nameChars} />
              ))}
            </Card>
            {deployments.hasNextPage && (
              <Button
                variant="default"
                mx="auto"
                loading={deployments.isFetchingNextPage}
                onClick={() => deployments.fetchNextPage()}
              >
                Load more
              </Button>
            )}
          </Stack>
        );
      }}
    </QueryResult>
  );
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <NativeSelect
          size="xs"
          aria-label="Stage or environment"
          value={target ?? ""}
          onChange={event => apply({ target: event.currentTarget.value || undefined })}
        >
          <option value="">All stages and environments</option>
          {pipeline.stages.length > 0 && (
            <optgroup label="Stages">
              {pipeline.stages.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </optgroup>
          )}
          {pipeline.environments.length > 0 && (
            <optgroup label="Environments">
              {listReadableEnvironments(access, pipeline).map(name => (
                <option key={name}>{name}</option>
              ))}
            </optgroup>
          )}
        </NativeSelect>
        <NativeSelect
          size="xs"
          aria-label="Status"
          value={status ?? ""}
          data={[
            { value: "", label: "Any status" },
            ...STATUSES.map(value => ({ value, label: capitalize(RUN_STATUS_STYLE[value].label) })),
          ]}
          onChange={event => apply({ status: event.currentTarget.value || undefined })}
        />
      </Group>
      {list}
    </Stack>
  );
}

/** The branch or tag as requested; null if a commit was. */
function branchOf({ commitId, resolvedCommitId, commit }: Deployment): string | null {
  return commit && resolvedCommitId !== commitId && !isHash(commitId) ? commitId : null;
}

/** "#12", or "qa-1 #12" in an environment. */
function formatName({ envName, number }: Deployment): string {
  return `${envName ? `${envName} ` : ""}#${number}`;
}

/** `nameChars`: width of the column of names. */
type RowProps = { org: string; deployment: Deployment; nameChars: number };

function DeploymentRow({ org, deployment, nameChars }: RowProps) {
  const took = elapsedSeconds(deployment, useNow());
  return (
    <div className={styles.deployment}>
      <Group justify="space-between" gap="sm">
        <Group gap="sm" style={{ minWidth: 0, flex: "1 1 18rem" }} wrap="nowrap">
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: deployment.id }}
            fw={600}
            className={styles.name}
            style={{ "--name-width": `${nameChars}ch` }}
          >
            {formatName(deployment)}
          </Link>
          <div style={{ minWidth: 0 }}>
            <CommitLine
              commitId={deployment.resolvedCommitId ?? deployment.commitId}
              commit={deployment.commit}
              branch={branchOf(deployment)}
              compareUrl={deployment.compareUrl}
              deploymentId={deployment.id}
            />
            {deployment.reason && (
              <Text size="sm" className="clamp">
                {deployment.reason}
              </Text>
            )}
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
    </div>
  );
}

function formatFirstStep(tracks: string | null | undefined, mayDeploy: boolean): string | null {
  if (tracks) return `Push a commit to ${tracks}${mayDeploy ? ", or click Deploy" : ""}.`;
  return mayDeploy ? "Click Deploy to start one." : null;
}
