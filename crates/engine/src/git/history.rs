//! Describes commits for people, and what changed between two of them.

use berth_analysis::clean;
use berth_core::id::RepositoryId;
use berth_core::time::Timestamp;
use berth_store::tables::commit::CommitRecord;

use super::mirror::GitMirror;
use super::{CommitHash, GitError};

/// Maximum number of characters of a title and of an author's name.
const TITLE_CHARS_MAX: usize = 200;
const AUTHOR_CHARS_MAX: usize = 100;
/// Maximum number of characters of a path.
const PATH_CHARS_MAX: usize = 1_024;
/// Format for `git log`: the fields of a commit, each terminated by NUL. Git truncates names and titles to more
/// columns than are kept.
const FORMAT: &str = "--format=%H%x00%at%x00%ct%x00%<(400,trunc)%an%x00%<(800,trunc)%s%x00";
const FIELDS: usize = 5;
/// The last second that a timestamp can show. A commit may name any time.
const LAST_SECOND: i64 = 253_402_300_799;
const NAMELESS: &str = "unknown";

/// A commit as shown to people. Contains no e-mail addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitDescription {
    pub commit: CommitHash,
    /// The first line of the message, without control characters.
    pub title: String,
    pub author: String,
    pub authored_at: Timestamp,
    pub committed_at: Timestamp,
}

/// A file that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// Numbers of lines. `None` for a binary file, and if the content of files is not in the mirror.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// The files that differ between two commits, in the order of their paths. Contains the first ones and the number of
/// all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    pub files: Vec<ChangedFile>,
    pub count: usize,
}

impl CommitDescription {
    /// Converts it to the record that is stored.
    pub fn into_record(self, repository: RepositoryId) -> CommitRecord {
        let Self { commit, title, author, authored_at, committed_at: _ } = self;
        CommitRecord { repository, commit: commit.to_string(), title, author, authored_at }
    }
}

impl GitMirror {
    /// Describes a commit.
    pub fn describe(&self, commit: &CommitHash) -> Result<CommitDescription, GitError> {
        let found = self.describe_range(None, commit, 1)?.into_iter().next();
        found.ok_or_else(|| GitError::Failed(format!("git does not describe {commit}")))
    }

    /// Describes the commits that are reachable from `to` but not from `from`, newest first. Without `from`, describes
    /// the most recent ones.
    pub fn describe_range(
        &self,
        from: Option<&CommitHash>,
        to: &CommitHash,
        max: usize,
    ) -> Result<Vec<CommitDescription>, GitError> {
        let git = self.git().args(["log", FORMAT]).arg(format!("--max-count={max}"));
        let git = git.args(["--end-of-options", to.as_str()]).args(from.map(|from| format!("^{from}")));
        let text = git.run()?.ok()?.text();
        let fields: Vec<_> = text.split('\0').collect();
        Ok(fields.chunks_exact(FIELDS).map_while(parse_commit).collect())
    }

    /// The number of commits that are reachable from `to` but not from `from`.
    pub fn count_range(&self, from: Option<&CommitHash>, to: &CommitHash) -> Result<u64, GitError> {
        let git = self.git().args(["rev-list", "--count", to.as_str()]);
        let text = git.args(from.map(|from| format!("^{from}"))).run()?.ok()?.text();
        text.trim().parse().map_err(|_| GitError::Failed("git did not count".into()))
    }

    /// Compares the files of two commits. Returns at most `max` files.
    pub fn changed_files(
        &self,
        from: &CommitHash,
        to: &CommitHash,
        max: usize,
    ) -> Result<ChangedFiles, GitError> {
        // A partial mirror lacks the content that lines are counted in.
        let form = if self.is_partial() { "--name-only" } else { "--numstat" };
        let git = self.git().args(["diff-tree", "-r", "-z", form, "--no-renames", "--no-ext-diff"]);
        let git = git.args(["--end-of-options", from.as_str(), to.as_str()]);
        let output = git.run()?.ok()?.stdout;
        let mut found = ChangedFiles::default();
        for line in output.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            found.count += 1;
            if found.files.len() < max {
                found.files.push(parse_file(&String::from_utf8_lossy(line)));
            }
        }
        Ok(found)
    }
}

fn parse_commit(fields: &[&str]) -> Option<CommitDescription> {
    let &[commit, authored_at, committed_at, author, title] = fields else { return None };
    Some(CommitDescription {
        commit: CommitHash::parse(commit.trim())?,
        title: shorten(title, TITLE_CHARS_MAX),
        author: author_name(author),
        authored_at: parse_time(authored_at),
        committed_at: parse_time(committed_at),
    })
}

/// Parses `3\t1\tpath`. Without tabs, the line is only a path.
fn parse_file(line: &str) -> ChangedFile {
    let mut parts = line.splitn(3, '\t');
    let (path, added, removed) = match (parts.next(), parts.next(), parts.next()) {
        (Some(added), Some(removed), Some(path)) => (path, added.parse().ok(), removed.parse().ok()),
        _ => (line, None, None),
    };
    ChangedFile { path: shorten(path, PATH_CHARS_MAX), added, removed }
}

fn parse_time(seconds: &str) -> Timestamp {
    let seconds = seconds.trim().parse::<i64>().unwrap_or_default();
    Timestamp::from_micros(0).plus_seconds(seconds.clamp(0, LAST_SECOND))
}

/// Some people configure their address as their name; then only the part before the `@` is shown.
fn author_name(text: &str) -> String {
    let name = match text.split_once('@') {
        // `Grace <grace@acme.test>`, or only the address.
        Some((before, _)) => before
            .rsplit_once('<')
            .map_or(before, |(name, local)| if name.trim().is_empty() { local } else { name }),
        None => text,
    };
    let name = shorten(name, AUTHOR_CHARS_MAX);
    if name.is_empty() { NAMELESS.to_owned() } else { name }
}

/// Removes control and invisible characters, and replaces what is beyond the limit by an ellipsis.
fn shorten(text: &str, chars_max: usize) -> String {
    let text = clean(text.trim());
    let text = text.trim();
    match text.char_indices().nth(chars_max - 1) {
        Some((end, last)) if end + last.len_utf8() < text.len() => format!("{}…", text[..end].trim_end()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn author_name_contains_no_address() {
        for (text, expected) in [
            ("Grace Hopper   ", "Grace Hopper"),
            ("grace@acme.test", "grace"),
            ("Grace <grace@acme.test>", "Grace"),
            ("", "unknown"),
            ("@", "unknown"),
            ("Gr\u{1b}[31mace\u{202e}", "Grace"),
        ] {
            assert_eq!(author_name(text), expected, "{text}");
        }
    }

    #[test]
    fn title_is_cut_after_whole_characters() {
        assert_eq!(shorten("über alles", 5), "über…");
        assert_eq!(shorten("über", 4), "über");
        assert_eq!(shorten("überall", 4), "übe…");
    }

    #[test]
    fn file_without_line_counts_is_a_path() {
        let file = |path: &str, added, removed| ChangedFile { path: path.to_owned(), added, removed };
        assert_eq!(parse_file("3\t1\ta\tb.txt"), file("a b.txt", Some(3), Some(1)));
        assert_eq!(parse_file("-\t-\ta.png"), file("a.png", None, None));
        assert_eq!(parse_file("a.txt"), file("a.txt", None, None));
    }
}
