import { Alert, Anchor, Button, Code, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconGitPullRequest } from "@tabler/icons-react";
import { useState } from "react";
import type { Analysis, FixPullRequest } from "@/api/types";
import { useProposeFix } from "@/data/analyses";
import { formatPullRequest, safeUrl } from "@/format/analysis";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CopyIconButton } from "@/ui/Copy";
import { DiffView } from "@/ui/DiffView";
import { escapeBidi } from "@/ui/escape";

type Props = {
  org: string;
  analysis: Analysis;
  fix: NonNullable<Analysis["suggestedFix"]>;
  mayRun: boolean;
};

/** States after which another pull request may be opened. */
const ENDED_STATES: FixPullRequest["state"][] = ["failed", "merged", "closed"];

/** The suggested fix, and its pull request. A person merges it. */
export function SuggestedFix({ org, analysis, fix, mayRun }: Props) {
  const [isAsking, setAsking] = useState(false);
  const pull = analysis.pullRequest;
  const mayAsk = mayRun && analysis.commitId != null && (!pull || ENDED_STATES.includes(pull.state));
  return (
    <Stack gap="xs" component="section" aria-label="Suggested fix">
      <Group justify="space-between" gap="sm">
        <Title order={4} fz="sm" className="wrap">
          Suggested fix: {escapeBidi(fix.summary)}
        </Title>
        {mayAsk && (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconGitPullRequest size={14} />}
            onClick={() => setAsking(true)}
          >
            {pull ? "Open another pull request" : "Open pull request"}
          </Button>
        )}
      </Group>
      {fix.diff == null ? (
        <Text size="sm" c="dimmed">
          You don’t have permission to see the diff: it contains source code.
        </Text>
      ) : (
        <DiffView text={fix.diff} label="Suggested change" />
      )}
      {pull && <PullRequestStatus pull={pull} />}
      {isAsking && (
        <OpenPullRequestDialog org={org} analysisId={analysis.id} onClose={() => setAsking(false)} />
      )}
    </Stack>
  );
}

function PullRequestStatus({ pull }: { pull: FixPullRequest }) {
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

type ProposeProps = { org: string; analysisId: string; onClose: () => void };

function OpenPullRequestDialog({ org, analysisId, onClose }: ProposeProps) {
  const propose = useProposeFix(org, analysisId);
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Open a pull request?"
      action="Open pull request"
      mutation={propose}
      input={undefined}
      onSuccess={onClose}
    >
      <List size="sm" spacing={6}>
        <List.Item>
          Pushes one commit, based on the one that failed, to a new branch under <Code>berth/</Code>.
        </List.Item>
        <List.Item>No other branch changes, and nothing is force-pushed or merged.</List.Item>
        <List.Item>The diff is checked for secrets before it is pushed.</List.Item>
        <List.Item>
          You become the author, so you cannot approve the change where self-approval is off.
        </List.Item>
      </List>
    </ConfirmDialog>
  );
}
