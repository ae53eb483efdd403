import { Anchor, CopyButton, Text, UnstyledButton } from "@mantine/core";
import { IconExternalLink, IconGitCompare } from "@tabler/icons-react";
import type { Commit } from "@/api/types";
import { useOrg } from "@/data/me";
import { formatCommit } from "@/format/commit";
import { Link } from "../Link";
import { PersonAvatar } from "../PersonAvatar";
import { RelativeTime } from "../RelativeTime";
import styles from "./commit.module.css";

type Props = {
  /** Hash, branch or tag; shown alone while the commit is unknown. */
  commitId: string;
  commit?: Commit | null;
  branch?: string | null;
  /** Comparison with what is deployed, on the forge. */
  compareUrl?: string | null;
  /** The deployment that the title opens; without it, the title opens the commit on the forge. */
  deploymentId?: string;
  /** Shown in place of the age of the commit. */
  at?: string;
  /** Only the title and the age. */
  isShort?: boolean;
};

/** A commit: title, author, branch, age, and the hash last. Falls back to the hash if the commit is unknown. */
export function CommitLine({ commitId, commit, branch, compareUrl, deploymentId, at, isShort }: Props) {
  const age = at ?? commit?.authoredAt;
  return (
    <span className={styles.line}>
      <CommitTitle commitId={commitId} commit={commit} deploymentId={deploymentId} />
      <span className={styles.details}>
        {commit && !isShort && (
          <span className={styles.author}>
            <PersonAvatar name={commit.author.name} size={18} />
            <span className={styles.name}>{commit.author.name}</span>
          </span>
        )}
        {branch && !isShort && <span className={styles.branch}>{branch}</span>}
        {age && <RelativeTime at={age} />}
        {commit && !isShort && <CommitHash id={commit.commitId} />}
        {!isShort && deploymentId && commit?.url && (
          <ForgeLink href={commit.url} label={`Commit ${formatCommit(commit.commitId)} on the forge`}>
            <IconExternalLink size={14} aria-hidden />
          </ForgeLink>
        )}
        {!isShort && compareUrl && (
          <ForgeLink href={compareUrl} label={`Compare ${formatCommit(commitId)} with what is deployed`}>
            <IconGitCompare size={14} aria-hidden />
          </ForgeLink>
        )}
      </span>
    </span>
  );
}

type TitleProps = Pick<Props, "commitId" | "commit" | "deploymentId">;

function CommitTitle({ commitId, commit, deploymentId }: TitleProps) {
  const org = useOrg();
  const text = commit ? (
    commit.title || "Commit without a message"
  ) : (
    <span className="commit" title={commitId}>
      {formatCommit(commitId)}
    </span>
  );
  const props = { className: styles.title, inherit: true, underline: "hover", c: "inherit" } as const;
  if (deploymentId)
    return (
      <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }} {...props}>
        {text}
      </Link>
    );
  if (commit?.url)
    return (
      <Anchor href={commit.url} target="_blank" rel="noopener noreferrer" {...props}>
        {text}
      </Anchor>
    );
  return <span className={styles.title}>{text}</span>;
}

/** Short hash; a click copies the full one. */
export function CommitHash({ id }: { id: string }) {
  return (
    <CopyButton value={id}>
      {({ copied, copy }) => (
        <UnstyledButton
          className={styles.hash}
          onClick={copy}
          title={copied ? "Copied" : `Copy ${id}`}
          aria-label={copied ? "Copied" : `Copy commit ${formatCommit(id)}`}
        >
          {copied ? "copied" : formatCommit(id)}
        </UnstyledButton>
      )}
    </CopyButton>
  );
}

type ForgeLinkProps = { href: string; label: string; children: React.ReactNode };

function ForgeLink({ href, label, children }: ForgeLinkProps) {
  return (
    <Anchor
      href={href}
      target="_blank"
      rel="noopener noreferrer"
      c="inherit"
      underline="never"
      title={label}
      aria-label={label}
      className={styles.icon}
    >
      {children}
    </Anchor>
  );
}

/** The title alone, for sentences and dialogs: “Make the shop green”, or the hash. */
export function CommitName({ commitId, commit }: Pick<Props, "commitId" | "commit">) {
  if (!commit) {
    return (
      <Text span inherit className="commit" title={commitId}>
        {formatCommit(commitId)}
      </Text>
    );
  }
  return (
    <Text span inherit title={commit.commitId}>
      “{commit.title}”
    </Text>
  );
}
