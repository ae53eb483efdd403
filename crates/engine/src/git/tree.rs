//! Reads from a mirror: resolves commit names, reads files and compares commits.

use berth_core::name::CommitId;
use berth_core::pipeline::grammar::is_branch;

use super::mirror::GitMirror;
use super::{CommitHash, GitError};

/// Minimum length of an abbreviated hash, the same as git's.
const ABBREVIATION_CHARS_MIN: usize = 4;
/// Maximum number of candidate objects checked for an ambiguous abbreviation.
const ALIKE_MAX: usize = 16;
/// Maximum number of tags returned for a commit.
const TAGS_AT_MAX: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Executable,
    Symlink,
    Directory,
    Submodule,
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitTreeEntry {
    /// Relative to the root of the repository.
    pub path: String,
    pub kind: EntryKind,
    pub sha: String,
    /// Size of the file, or of the symlink's target.
    pub bytes: u64,
}

/// The difference between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedPaths {
    Paths(Vec<String>),
    /// There are more changed paths than requested, or the earlier commit is missing. Any path may have changed.
    Anything,
}

/// The result of resolving a commit name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedCommit {
    Commit(CommitHash),
    /// The abbreviation matches several commits. The list may be incomplete.
    Several(Vec<CommitHash>),
    Nothing,
}

/// Whether this is a full SHA-1 or SHA-256 hash, which always names the same commit.
pub fn is_whole_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether this may be an abbreviated hash.
pub fn is_abbreviation(text: &str) -> bool {
    (ABBREVIATION_CHARS_MIN..64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the error text for an ambiguous abbreviation.
pub fn ambiguous_message(meant: &CommitId, commits: &[CommitHash]) -> String {
    let named: Vec<_> = commits.iter().map(CommitHash::as_str).collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    format!("several commits begin with {meant}{named}; send more characters of the hash")
}

impl GitMirror {
    /// Resolves a full hash, a branch or tag name, or an abbreviated hash, tried in this order. A branch or tag whose
    /// name looks like an abbreviated hash therefore takes precedence.
    pub fn resolve(&self, meant: &CommitId) -> Result<ResolvedCommit, GitError> {
        let text = meant.as_str();
        if is_whole_hash(text)
            && let Some(commit) = self.verify(&text.to_lowercase())?
        {
            return Ok(ResolvedCommit::Commit(commit));
        }
        let places: &[&str] = match text.starts_with("refs/heads/") || text.starts_with("refs/tags/") {
            true => &["refs/heads/", "refs/tags/", ""],
            false => &["refs/heads/", "refs/tags/"],
        };
        for place in places {
            if let Some(commit) = self.verify(&format!("{place}{text}"))? {
                return Ok(ResolvedCommit::Commit(commit));
            }
        }
        if !is_abbreviation(text) {
            return Ok(ResolvedCommit::Nothing);
        }
        // Git resolves an abbreviation if only one of the matching objects is a commit.
        if let Some(commit) = self.verify(&text.to_lowercase())? {
            return Ok(ResolvedCommit::Commit(commit));
        }
        let asked = self.git().arg("rev-parse").arg(format!("--disambiguate={}", text.to_lowercase()));
        let found = asked.run()?.ok()?.text();
        let mut commits = Vec::new();
        for sha in found.lines().take(ALIKE_MAX) {
            let kind = self.git().args(["cat-file", "-t", sha]).run()?.ok()?;
            commits.extend((kind.text().trim() == "commit").then(|| CommitHash::parse(sha)).flatten());
        }
        let is_looked_through = found.lines().count() <= ALIKE_MAX;
        Ok(match (&commits[..], is_looked_through) {
            ([], true) => ResolvedCommit::Nothing,
            // A sync has just fetched it.
            ([commit], true) => ResolvedCommit::Commit(commit.clone()),
            _ => ResolvedCommit::Several(commits),
        })
    }

    /// Resolves a hash or a full ref name.
    pub(super) fn verify(&self, name: &str) -> Result<Option<CommitHash>, GitError> {
        let name = format!("{name}^{{commit}}");
        let ran = self.git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).run()?;
        Ok(ran.status.success().then(|| ran.text().lines().last().and_then(CommitHash::parse)).flatten())
    }

    /// The tags that point to a commit.
    pub fn tags_at(&self, commit: &CommitHash) -> Result<Vec<String>, GitError> {
        let git = self.git().arg("for-each-ref").arg(format!("--points-at={commit}"));
        let git =
            git.arg(format!("--count={TAGS_AT_MAX}")).args(["--format=%(refname:strip=2)", "refs/tags"]);
        let text = git.run()?.ok()?.text();
        Ok(text.lines().filter(|name| is_branch(name)).map(str::to_owned).collect())
    }

    /// Returns the entry at a path.
    pub fn entry(&self, commit: &CommitHash, path: &str) -> Result<Option<GitTreeEntry>, GitError> {
        Ok(self.entries(commit, Some(path), &[])?.into_iter().find(|entry| entry.path == path))
    }

    /// Returns the content of a file. The caller must have checked the file's size.
    pub fn content(&self, file: &GitTreeEntry) -> Result<Vec<u8>, GitError> {
        Ok(self.git().args(["cat-file", "blob", &file.sha]).run()?.ok()?.stdout)
    }

    /// Reads a file. Returns `None` for a symlink, and an error if the file is too large.
    pub fn read(&self, commit: &CommitHash, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, GitError> {
        let is_file = |entry: &GitTreeEntry| matches!(entry.kind, EntryKind::File | EntryKind::Executable);
        let Some(entry) = self.entry(commit, path)?.filter(is_file) else { return Ok(None) };
        if entry.bytes > bytes_max {
            let text = format!("{path} has {} bytes; at most {bytes_max} are read", entry.bytes);
            return Err(GitError::TooLarge(text));
        }
        self.content(&entry).map(Some)
    }

    /// Returns the entries of a directory, or none if the directory does not exist.
    pub fn list(&self, commit: &CommitHash, dir: &str) -> Result<Vec<GitTreeEntry>, GitError> {
        self.entries(commit, Some(&format!("{}/", dir.trim_end_matches('/'))), &[])
    }

    pub(super) fn entries(
        &self,
        commit: &CommitHash,
        path: Option<&str>,
        options: &[&str],
    ) -> Result<Vec<GitTreeEntry>, GitError> {
        // Git fails for paths that contain `..`; treat them as paths that do not exist.
        if path.is_some_and(|path| path.split('/').any(|part| part == "..")) {
            return Ok(Vec::new());
        }
        let git = self.git().args(["ls-tree", "-z", "-l", "--full-tree"]).args(options);
        let git = git.args(["--end-of-options", commit.as_str()]);
        let ran = git.args(path.map(|path| ["--", path]).into_iter().flatten()).run()?.ok()?;
        Ok(ran.stdout.split(|byte| *byte == 0).filter_map(parse_entry).collect())
    }

    pub fn changed_paths(
        &self,
        from: &CommitHash,
        to: &CommitHash,
        max: usize,
    ) -> Result<ChangedPaths, GitError> {
        let git =
            self.git().args(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options"]);
        let ran = git.args([from.as_str(), to.as_str()]).run()?;
        if !ran.status.success() {
            return Ok(ChangedPaths::Anything);
        }
        let paths = ran.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let paths: Vec<_> =
            paths.take(max + 1).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        Ok(if paths.len() > max { ChangedPaths::Anything } else { ChangedPaths::Paths(paths) })
    }

    pub fn is_ancestor(&self, earlier: &CommitHash, later: &CommitHash) -> Result<bool, GitError> {
        let ran = self.git().args(["merge-base", "--is-ancestor", earlier.as_str(), later.as_str()]).run()?;
        match ran.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => ran.ok().map(|_| false),
        }
    }

    /// The author's name and email address, as recorded in the commit.
    pub fn author(&self, commit: &CommitHash) -> Result<(String, String), GitError> {
        let git = self.git().args(["log", "-1", "--format=%an%x00%ae", "--end-of-options", commit.as_str()]);
        let text = git.run()?.ok()?.text();
        let (name, email) = text.trim_end_matches('\n').split_once('\0').unwrap_or_default();
        Ok((name.to_owned(), email.to_owned()))
    }

    /// The number of commits that are reachable from `to` but not from `from`.
    pub fn count_between(&self, from: &CommitHash, to: &CommitHash) -> Result<u64, GitError> {
        self.count_range(Some(from), to)
    }
}

/// Parses a line of `git ls-tree`: `100644 blob <sha>    <size>\t<path>`
fn parse_entry(line: &[u8]) -> Option<GitTreeEntry> {
    let line = String::from_utf8_lossy(line);
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_ascii_whitespace();
    let (mode, _, sha, bytes) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
    let kind = match mode {
        "040000" => EntryKind::Directory,
        "120000" => EntryKind::Symlink,
        "160000" => EntryKind::Submodule,
        "100755" => EntryKind::Executable,
        _ => EntryKind::File,
    };
    Some(GitTreeEntry { path: path.to_owned(), kind, sha: sha.to_owned(), bytes: bytes.parse().unwrap_or(0) })
}
