import { Group, Stack, Text } from "@mantine/core";
import { IconAnchor, IconBan, IconClock } from "@tabler/icons-react";
import type { PullRequest, PullRequestClaim } from "@/api/types";
import { useNow } from "@/data/clock";
import { useOrg } from "@/data/me";
import { RUN_STATUS_STYLE, type StatusStyle } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { StatusText } from "@/ui/StatusBadge";
import { formatClaim } from "./claimText";

const CLAIM_STATUS_STYLE: Record<PullRequestClaim["state"], StatusStyle> = {
  queued: { label: "queued", tone: "warn", icon: IconClock },
  held: { label: "held", tone: "good", icon: IconAnchor },
  stopped: { label: "stopped", tone: "quiet", icon: IconBan },
};

/** The environments that a pull request uses or waits for, with what is deployed there. */
export function ClaimList({ pullRequest }: { pullRequest: PullRequest }) {
  if (pullRequest.claims.length === 0)
    return (
      <Text size="sm" c="dimmed">
        {pullRequest.needsApproval ? "Waiting for approval" : "No environment"}
      </Text>
    );
  return (
    <Stack gap={4}>
      {pullRequest.claims.map(claim => (
        <ClaimRow key={claim.pipeline.id} claim={claim} />
      ))}
    </Stack>
  );
}

function ClaimRow({ claim }: { claim: PullRequestClaim }) {
  const org = useOrg();
  const now = useNow();
  const { pipeline, environment, deployment } = claim;
  return (
    <Group gap="sm" lh={1.45}>
      <Link
        to="/o/$org/environments/$pipelineId/$envName"
        params={{ org, pipelineId: pipeline.slug, envName: environment.name }}
        size="sm"
        underline="hover"
        title={pipeline.name}
      >
        <StatusText status={CLAIM_STATUS_STYLE[claim.state]} label={formatClaim(claim, now)} />
      </Link>
      {deployment && (
        <Link
          to="/o/$org/deployments/$deploymentId"
          params={{ org, deploymentId: deployment.id }}
          size="sm"
          underline="hover"
        >
          <StatusText status={RUN_STATUS_STYLE[deployment.state]} /> <CommitId id={deployment.commitId} />
        </Link>
      )}
    </Group>
  );
}
