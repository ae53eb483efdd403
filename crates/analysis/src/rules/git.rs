//! Rules for git.

use crate::category::Category::{Configuration, Credentials, Git};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "git-credentials",
        category: Credentials,
        patterns: &[
            r"could not read (?P<what>Username|Password) for",
            r"(?P<what>Authentication failed) for '",
            r"(?P<what>Invalid username or (?:password|token))",
            r"remote: (?P<what>HTTP Basic: Access denied)",
        ],
        says: "The git server requires authentication ({what}).",
        advice: "Pass a token or key with access to the repository as a secret.",
        ..CAUSE
    },
    Rule {
        id: "git-no-repository",
        category: Git,
        patterns: &[
            r"repository '(?P<what>[^']+)' (?:does not exist|not found)",
            r"'(?P<what>[^']+)' does not appear to be a git repository",
            r"remote: (?P<what>Repository not found)",
            r"ERROR: (?P<what>Repository not found)",
        ],
        says: "The repository does not exist or access is denied: {what}.",
        advice: "Fix the URL; if the repository is private, give the step access.",
        ..CAUSE
    },
    Rule {
        id: "git-rejected",
        category: Git,
        patterns: &[
            r"! \[(?P<what>(?:remote )?rejected)\]",
            r"(?P<what>non-fast-forward)",
            r"(?P<what>fetch first)\)",
        ],
        after: 2,
        says: "The push was rejected ({what}): the branch has newer commits or is protected.",
        advice: "Fetch and rebase before pushing, or push to an unprotected branch.",
        ..CAUSE
    },
    Rule {
        id: "git-conflict",
        category: Git,
        patterns: &[
            r"CONFLICT \([^)]+\): (?P<what>.+)",
            r"error: (?P<what>could not apply \S+)",
            r"error: (?P<what>patch failed: \S+)",
        ],
        says: "git found conflicting changes: {what}.",
        advice: "Resolve the conflict in a clone and push the result.",
        ..CAUSE
    },
    Rule {
        id: "git-unknown-ref",
        category: Git,
        patterns: &[
            r"pathspec '(?P<name>[^']+)' did not match",
            r"couldn't find remote ref (?P<name>\S+)",
            r"ambiguous argument '(?P<name>[^']+)': unknown revision",
            r"Remote branch (?P<name>\S+) not found",
            r"reference is not a tree: (?P<name>\S+)",
            r"(?:bad revision|not a valid object name:?) '?(?P<name>[^'\s]+)",
            r"src refspec (?P<name>\S+) does not match any",
            r"invalid reference: (?P<name>\S+)",
        ],
        says: "git cannot find {name}.",
        advice: "Fix the name, or fetch more: a shallow clone lacks older commits and other branches.",
        ..CAUSE
    },
    Rule {
        id: "git-no-tags",
        category: Git,
        patterns: &[
            r"fatal: (?P<what>No names found, cannot describe anything)",
            r"fatal: (?P<what>No tags can describe .*)",
        ],
        says: "git found no tag that describes this commit: {what}.",
        advice: "Fetch the tags (`git fetch --tags`), or use `git describe --always`.",
        ..CAUSE
    },
    Rule {
        id: "git-no-work-tree",
        category: Git,
        patterns: &[
            r"fatal: (?P<what>not a git repository).*",
            r"fatal: (?P<what>this operation must be run in a work tree)",
        ],
        says: "The command did not run in a git repository: {what}.",
        advice: "Change to the clone first, or pass the version or commit in a variable.",
        ..CAUSE
    },
    Rule {
        id: "git-ownership",
        category: Git,
        patterns: &[r"detected dubious ownership in repository at '(?P<what>[^']+)'"],
        after: 3,
        says: "git refuses a repository that is owned by a different user: {what}.",
        advice: "Run as the owner, change the owner, or add the directory to `safe.directory`.",
        ..CAUSE
    },
    Rule {
        id: "git-identity",
        category: Configuration,
        patterns: &[
            r"(?P<what>Please tell me who you are)",
            r"(?P<what>unable to auto-detect email address)",
            r"(?P<what>empty ident name)",
        ],
        says: "git has no name and email address for the commit ({what}).",
        advice: "Set `user.name` and `user.email`, or GIT_AUTHOR_NAME and the like, before committing.",
        ..CAUSE
    },
    Rule {
        id: "git-lock",
        category: Git,
        patterns: &[r"Unable to create '(?P<what>[^']+\.lock)': File exists"],
        says: "Another git process is using the clone, or was killed there: {what}.",
        advice: "Run git commands one after the other; delete the lock file only if none is running.",
        ..CAUSE
    },
    Rule {
        id: "git-lfs",
        category: Git,
        patterns: &[
            r"(?P<what>smudge filter lfs failed)",
            r"(?P<what>Error downloading object: .+)",
            r"(?P<what>This repository is over its data quota)",
        ],
        says: "A Git LFS file could not be downloaded: {what}.",
        advice: "Check the quota of and access to the LFS server; GIT_LFS_SKIP_SMUDGE=1 skips LFS files.",
        ..CAUSE
    },
    Rule {
        id: "git-nothing",
        category: Git,
        patterns: &[r"^(?P<what>nothing (?:added )?to commit.*|no changes added to commit.*)"],
        says: "There is nothing to commit, which git treats as an error: {what}.",
        advice: "Check first (`git diff --cached --quiet`), or use --allow-empty if intended.",
        ..CAUSE
    },
    Rule {
        id: "git-exists",
        category: Git,
        patterns: &[
            r"fatal: (?P<what>(?:tag|a branch named|remote) '?[^']+'? already exists)",
            r"error: (?P<what>remote \S+ already exists)",
        ],
        says: "git cannot create something that already exists: {what}.",
        advice: "Make the step idempotent: check first, or choose a different name.",
        ..CAUSE
    },
    Rule {
        id: "git-overwrite",
        category: Git,
        patterns: &[
            r"Your (?P<what>local changes to the following files would be overwritten)",
            r"(?P<what>untracked working tree files would be overwritten)",
            r"fatal: destination path '(?P<what>[^']+)' already exists",
        ],
        after: 1,
        says: "git would overwrite local files: {what}.",
        advice: "Start from a clean directory, or stash and clean first.",
        ..CAUSE
    },
    Rule {
        id: "git-report",
        category: Git,
        patterns: &[
            r"error: (?P<what>failed to push some refs to .+)",
            r"Automatic (?P<what>merge failed)",
            r"fatal: (?P<what>(?:unable to access|clone of) '.+)",
            r"fatal: (?P<what>Could not read from remote repository)",
        ],
        says: "git failed: {what}.",
        advice: "The lines above say why.",
        ..REPORT
    },
    Rule {
        id: "git-fatal",
        category: Git,
        patterns: &[r"^fatal: (?P<what>.+)"],
        says: "git failed: {what}.",
        advice: "Run the same command in a clone; `GIT_TRACE=1` shows details.",
        ..REPORT
    },
];
