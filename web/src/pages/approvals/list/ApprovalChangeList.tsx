import { Anchor, Group, Stack, Text } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ApprovalChanges } from "@/api/types";
import { approvalChangesQuery } from "@/data/approvals";
import { CommitLine } from "@/ui/commits/CommitLine";
import classes from "./approvals.module.css";

const COMMITS_SHOWN_MAX = 5;

type Props = {
  org: string;
  approvalId: string;
  stage: string;
  /** Whether the stage has a deployment; its commit may be unknown. */
  isDeployed: boolean;
};

/** What approving changes in the stage: commits, files, definition and secrets. */
export function ApprovalChangeList({ org, approvalId, stage, isDeployed }: Props) {
  const changes = useQuery(approvalChangesQuery(org, approvalId));
  if (changes.isError) return <Text c="dimmed">The changes cannot be compared now.</Text>;
  if (changes.data && isUnknown(changes.data)) return null;
  return (
    <section className={classes.changes} aria-label={`Changes in ${stage}`}>
      {changes.data ? (
        <Changes changes={changes.data} stage={stage} isDeployed={isDeployed} />
      ) : (
        <Text c="dimmed">Comparing with what is deployed…</Text>
      )}
    </section>
  );
}

/** A pipeline without a repository has no commits to compare. */
function isUnknown({ to, definition, secrets }: ApprovalChanges): boolean {
  return to === null && definition === null && !secrets?.length;
}

function formatHeading(isCompared: boolean, isDeployed: boolean, stage: string): string {
  if (isCompared) return `What changes in ${stage}`;
  return isDeployed ? `The commit deployed in ${stage} is unknown` : `Nothing is deployed in ${stage} yet`;
}

type ChangesProps = { changes: ApprovalChanges; stage: string; isDeployed: boolean };

function Changes({ changes, stage, isDeployed }: ChangesProps) {
  const { from, compareUrl, definition, secrets } = changes;
  return (
    <Stack gap="xs">
      <Group justify="space-between" gap="xs">
        <Text fw={600}>
          {formatHeading(from !== null, isDeployed, stage)}
          <Text span fw={400} c="dimmed">
            {formatTotals(changes)}
          </Text>
        </Text>
        {compareUrl && (
          <Anchor href={compareUrl} target="_blank" rel="noopener noreferrer" className={classes.compare}>
            Compare on the forge <IconExternalLink size={14} aria-hidden />
          </Anchor>
        )}
      </Group>
      <CommitList changes={changes} />
      <FileList changes={changes} />
      {definition && (
        <Text>
          Definition <Counts added={definition.added} removed={definition.removed} />
        </Text>
      )}
      {secrets && secrets.length > 0 && (
        <Text className="wrap">
          Secrets:{" "}
          {secrets.map(({ name, change }, at) => (
            <span key={name}>
              {at > 0 && ", "}
              <code>{name}</code> {change}
            </span>
          ))}
        </Text>
      )}
    </Stack>
  );
}

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

export function formatTotals({ from, commits, commitCount, files, fileCount }: ApprovalChanges): string {
  if (!from) return "";
  if (!commits) return ": the commits cannot be compared now";
  const parts = [plural(commitCount ?? commits.length, "commit")];
  if (files) parts.push(plural(fileCount ?? files.length, "file"));
  return `: ${parts.join(", ")}`;
}

function CommitList({ changes: { commits, commitCount, from } }: { changes: ApprovalChanges }) {
  if (!commits || commits.length === 0 || !from) return null;
  const rest = commits.slice(COMMITS_SHOWN_MAX);
  const hidden = (commitCount ?? commits.length) - commits.length;
  const row = (commit: (typeof commits)[number]) => (
    <li key={commit.commitId}>
      <CommitLine commitId={commit.commitId} commit={commit} />
    </li>
  );
  return (
    <>
      <ul className={classes.commits}>{commits.slice(0, COMMITS_SHOWN_MAX).map(row)}</ul>
      {rest.length > 0 && (
        <details className="more">
          <summary>{plural(rest.length, "earlier commit")}</summary>
          <ul className={classes.commits}>{rest.map(row)}</ul>
          {hidden > 0 && <Text c="dimmed">and {hidden} more</Text>}
        </details>
      )}
    </>
  );
}

function FileList({ changes: { files, fileCount } }: { changes: ApprovalChanges }) {
  if (!files || files.length === 0) return null;
  const hidden = (fileCount ?? files.length) - files.length;
  return (
    <details className="more">
      <summary>{plural(fileCount ?? files.length, "changed file")}</summary>
      <ul className={classes.files}>
        {files.map(({ path, added, removed }) => (
          <li key={path}>
            <code className="wrap">{path}</code>
            {added === null || removed === null ? (
              <Text span size="xs" c="dimmed">
                binary
              </Text>
            ) : (
              <Counts added={added} removed={removed} />
            )}
          </li>
        ))}
      </ul>
      {hidden > 0 && <Text c="dimmed">and {hidden} more</Text>}
    </details>
  );
}

/** Lines added and removed. */
function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className={classes.counts}>
      <span className={classes.added}>+{added}</span> <span className={classes.removed}>−{removed}</span>
    </span>
  );
}
