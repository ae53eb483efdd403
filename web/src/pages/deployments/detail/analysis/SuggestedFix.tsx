import { Alert, Anchor, Code, Group, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconGitPullRequest } from "@tabler/icons-react";
import type { Analysis, FixPullRequest } from "@/api/types";
import { formatPullRequest, safeUrl } from "@/format/analysis";
import { CopyIconButton } from "@/ui/Copy";
import { DiffView } from "@/ui/DiffView";
import { escapeBidi } from "@/ui/escape";

type Props = { fix: NonNullable<Analysis["suggestedFix"]> };

/** The suggested fix as a diff. */
export function SuggestedFix({ fix }: Props) {
  return (
    <Stack gap="xs" component="section" aria-label="Suggested fix">
      <Title order={3} fz="sm" className="wrap">
        Suggested fix: {escapeBidi(fix.summary)}
      </Title>
      {fix.diff == null ? (
        <Text size="sm" c="dimmed">
          You don’t have permission to see the diff: it contains source code.
        </Text>
      ) : (
        <DiffView text={fix.diff} label="Suggested change" />
      )}
    </Stack>
  );
}

export function PullRequestStatus({ pull }: { pull: FixPullRequest }) {
  const url = safeUrl(pull.url);
  if (pull.state === "failed")
    return (
      <Alert color="lantern" icon={<IconAlertTriangle />} title={formatPullRequest(pull)} data-pull="failed">
        <Text size="sm" className="wrap">
          {pull.error}
        </Text>
      </Alert>
    );
  return (
    <Group gap={6} fz="sm" role="status" data-pull={pull.state}>
      <IconGitPullRequest
        size={16}
        aria-hidden
        color="var(--berth-busy)"
        className={pull.state === "opening" ? "busy-dot" : undefined}
      />
      <Text size="sm" className="wrap">
        {formatPullRequest(pull)} Requested by {pull.askedBy.name} on branch <Code>{pull.branch}</Code>
        <CopyIconButton value={pull.branch} label="Copy branch name" />
        {url && (
          <Anchor href={url} target="_blank" rel="noopener noreferrer" inherit>
            View pull request
          </Anchor>
        )}
      </Text>
    </Group>
  );
}
