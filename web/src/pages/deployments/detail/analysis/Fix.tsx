import { Alert, Anchor, Button, Code, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconGitPullRequest } from "@tabler/icons-react";
import { useState } from "react";
import type { Analysis, FixPullRequest } from "@/api/types";
import { useProposeFix } from "@/data/analyses";
import { useMay } from "@/data/me";
import { formatPullRequest, pageAddress } from "@/format/analysis";
import { Confirm } from "@/ui/Confirm";
import { CopyIcon } from "@/ui/Copy";
import { Diff } from "@/ui/Diff";
import { escapeBidi } from "@/ui/escape";

type Props = { org: string; analysis: Analysis; fix: NonNullable<Analysis["suggestedFix"]> };

/** After these another one may be asked for. */
const ENDED: FixPullRequest["state"][] = ["failed", "merged", "closed"];

/** The suggested fix, and its pull request. A person merges it. */
export function Fix({ org, analysis, fix }: Props) {
  const mayRun = useMay("analysis:run");
  const [isAsking, setAsking] = useState(false);
  const pull = analysis.pullRequest;
  const mayAsk = mayRun && analysis.commitId != null && (!pull || ENDED.includes(pull.state));
  return (
    <Stack gap="xs" component="section" aria-label="Suggested fix">
      <Group justify="space-between" gap="sm">
        <Title order={4} fz="sm" className="wrap">
          Suggested: {escapeBidi(fix.summary)}
        </Title>
        {mayAsk && (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconGitPullRequest size={14} />}
            onClick={() => setAsking(true)}
          >
            {pull ? "Propose it again" : "Propose it as a pull request"}
          </Button>
        )}
      </Group>
      {fix.diff == null ? (
        <Text size="sm" c="dimmed">
          Your role cannot see the change: it holds source files.
        </Text>
      ) : (
        <Diff text={fix.diff} label="The suggested change" />
      )}
      {pull && <Pull pull={pull} />}
      {isAsking && <Propose org={org} analysisId={analysis.id} onClose={() => setAsking(false)} />}
    </Stack>
  );
}

function Pull({ pull }: { pull: FixPullRequest }) {
  const address = pageAddress(pull.url);
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
        {formatPullRequest(pull)} Asked for by {pull.askedBy.name}, on the branch <Code>{pull.branch}</Code>
        <CopyIcon value={pull.branch} label="Copy the branch" />
        {address && (
          <Anchor href={address} target="_blank" rel="noopener noreferrer" inherit>
            Look at it
          </Anchor>
        )}
      </Text>
    </Group>
  );
}

type ProposeProps = { org: string; analysisId: string; onClose: () => void };

function Propose({ org, analysisId, onClose }: ProposeProps) {
  const propose = useProposeFix(org, analysisId);
  return (
    <Confirm
      onClose={onClose}
      title="Propose it as a pull request"
      action="Propose it"
      mutation={propose}
      input={undefined}
      onSuccess={onClose}
    >
      <List size="sm" spacing={6}>
        <List.Item>
          One commit on top of the one that failed goes to a new branch below <Code>berth/</Code>.
        </List.Item>
        <List.Item>
          No other branch is written, nothing is forced, and nothing is merged: a person does that.
        </List.Item>
        <List.Item>The change is checked once more, and nothing goes out that holds a secret.</List.Item>
        <List.Item>You are named as the author, so where others must approve you do not count.</List.Item>
      </List>
    </Confirm>
  );
}
