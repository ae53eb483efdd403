import { Badge, Group, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";
import type { Deployment } from "@/api/types";
import { useNow } from "@/data/clock";
import { deploymentCommit } from "@/data/deploymentCommit";
import { elapsedSeconds, formatTook, formatTrigger, isFinished, workingSeconds } from "@/format/run";
import { capitalize } from "@/format/text";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link } from "@/ui/Link";
import { PullRequestName } from "@/ui/pullRequests/PullRequestName";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";

type Props = {
  org: string;
  /** Slug of the pipeline, or its ID until it is loaded. */
  pipelineId: string;
  /** Name of the pipeline; undefined until it is loaded. */
  pipelineName: string | undefined;
  deployment: Deployment;
  actions: ReactNode;
};

/** Title, status, commit, trigger and duration of a deployment, with its actions. */
export function DeploymentHeader(props: Props) {
  const { deployment, pipelineName, actions } = props;
  const { envName, number, rollback, status } = deployment;
  const title = `${envName ?? pipelineName ?? "Deployment"} #${number}`;
  useDocumentTitle(`${title} · Berth`);
  const { commitId, commit, compareUrl, branch } = deploymentCommit(deployment);
  return (
    <Stack gap={4}>
      <DeploymentPath {...props} />
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={6} style={{ flex: "1 1 20rem", minWidth: 0 }}>
          <Group gap="sm">
            <Title order={1} className="wrap">
              {title}
            </Title>
            <StatusBadge status={RUN_STATUS_STYLE[status]} size="lg" />
            {rollback && (
              <Badge color="gray" c="inherit">
                rollback of {rollback.stage}
              </Badge>
            )}
          </Group>
          <Group gap={4} style={{ columnGap: "1rem" }}>
            <CommitLine commitId={commitId} commit={commit} branch={branch} compareUrl={compareUrl} />
            <DeploymentFacts {...props} />
          </Group>
          {deployment.reason && (
            <Text size="sm" className="wrap">
              “{deployment.reason}”
            </Text>
          )}
        </Stack>
        <Group gap="xs">{actions}</Group>
      </Group>
    </Stack>
  );
}

function DeploymentPath({ org, pipelineId, pipelineName, deployment }: Props) {
  const { envName, number } = deployment;
  const pipeline = (
    <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId }} inherit c="inherit">
      {pipelineName ?? "Pipeline"}
    </Link>
  );
  const environment = envName && (
    <Link
      to="/o/$org/environments/$pipelineId/$envName"
      params={{ org, pipelineId, envName }}
      inherit
      c="inherit"
    >
      {envName}
    </Link>
  );
  return (
    <Breadcrumb
      path={[
        {
          key: "pipelines",
          label: (
            <Link to="/o/$org/pipelines" params={{ org }} inherit c="inherit">
              Pipelines
            </Link>
          ),
        },
        { key: "pipeline", label: pipeline },
        ...(environment ? [{ key: "environment", label: environment }] : []),
        { key: "deployment", label: `#${number}` },
      ]}
    />
  );
}

function DeploymentFacts({ org, deployment }: Props) {
  const now = useNow();
  const took = elapsedSeconds(deployment, now);
  const { retryOf, fence, envName, pullRequest, status } = deployment;
  return (
    <Text size="sm" c="dimmed" component="div" className="wrap">
      {capitalize(formatTrigger(deployment))} <RelativeTime at={deployment.createdAt} />
      {took !== null &&
        ` · ${isFinished(status) ? "took" : "running for"} ${formatTook(took, workingSeconds(deployment, now))}`}
      {retryOf && (
        <>
          {" · retry of "}
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: retryOf }}
            inherit
            underline="always"
          >
            an earlier deployment
          </Link>
        </>
      )}
      {envName && fence != null && ` · fencing token ${fence}`}
      {pullRequest && <PullRequestName of={pullRequest} />}
    </Text>
  );
}
