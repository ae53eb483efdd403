import { Alert, Anchor, Badge, Card, Group, Stack, Text, Title } from "@mantine/core";
import {
  IconAlertTriangle,
  IconGitMerge,
  IconGitPullRequest,
  IconGitPullRequestClosed,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { PullRequest } from "@/api/types";
import { pullRequestQuery } from "@/data/pullRequests";
import type { StatusStyle } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { ClaimList } from "../ClaimList";
import { formatRepositoryOf } from "../claimText";
import { ApproveCommitButton } from "../dialogs/ApproveCommitButton";

const STATE_STYLE: Record<PullRequest["state"], StatusStyle> = {
  open: { label: "open", tone: "good", icon: IconGitPullRequest },
  merged: { label: "merged", tone: "busy", icon: IconGitMerge },
  closed: { label: "closed", tone: "quiet", icon: IconGitPullRequestClosed },
};

/** One pull request: its branches and head commit, and the environments that it uses or waits for. */
export function PullRequestPage() {
  const { org, repositoryId, number } = useParams({ from: "/o/$org/pull-requests/$repositoryId/$number" });
  const pullRequest = useQuery(pullRequestQuery({ org, repositoryId, number: Number(number) }));
  return (
    <QueryResult of={pullRequest}>
      {found => (
        <Page
          title={`#${found.number} ${found.title}`}
          lead={`${formatRepositoryOf(found.url)} by ${found.author.name}`}
          actions={
            <StatusBadge
              status={STATE_STYLE[found.state]}
              label={found.draft && found.state === "open" ? "draft" : undefined}
              size="lg"
            />
          }
        >
          {found.needsApproval && (
            <Alert color="lantern" icon={<IconAlertTriangle />} title="Waiting for approval">
              <Stack gap="sm" align="flex-start">
                <Text size="sm">
                  It comes from a fork. Nothing of it runs before a member approves its head commit.
                </Text>
                <ApproveCommitButton pullRequest={found} />
              </Stack>
            </Alert>
          )}
          {found.error && (
            <Alert color="buoy" icon={<IconAlertTriangle />} title="Last update failed">
              <Text size="sm" className="wrap">
                {found.error}
              </Text>
            </Alert>
          )}
          <Card component="section" aria-label="Environments">
            <Title order={2} mb="sm">
              Environments
            </Title>
            <ClaimList pullRequest={found} />
          </Card>
          <Card component="section" aria-label="Details">
            <Stack gap="xs">
              <Text className="wrap">
                {found.headBranch}
                {found.isFork && " (fork)"} into {found.baseBranch} at <CommitId id={found.head} />
              </Text>
              {found.labels.length > 0 && (
                <Group gap={6}>
                  {found.labels.map(label => (
                    <Badge key={label} color="gray" c="inherit">
                      {label}
                    </Badge>
                  ))}
                </Group>
              )}
              <Text size="sm" c="dimmed">
                Updated <RelativeTime at={found.updatedAt} />
              </Text>
              <Anchor href={found.url} target="_blank" rel="noopener noreferrer" className="wrap">
                Open on the forge
              </Anchor>
            </Stack>
          </Card>
        </Page>
      )}
    </QueryResult>
  );
}
