//! Finds the authors of a change: everyone who is named as author, committer or co-author of its commits.

use berth_core::approval::ChangeAuthors;

use super::branch::BOT_EMAIL;
use super::mirror::GitMirror;
use super::{CommitHash, GitError};
use crate::limits::{CHANGE_AUTHORS_MAX, CHANGE_COMMITS_MAX, FIRST_CHANGE_COMMITS_MAX};

/// Committer addresses of programs: GitHub's web interface and Berth itself. Such a committer does not count as an
/// author of the change, but the commit's author does. Forging one of these addresses gains no more than forging
/// another person's address.
const PROGRAMS: [&str; 2] = ["noreply@github.com", BOT_EMAIL];
/// Maximum length of an address. A commit may contain any text in place of an address.
const ADDRESS_CHARS_MAX: usize = 320;
/// Format for `git log`: the fields of a commit, each terminated by NUL.
const FORMAT: &str = "--format=%ae%x00%ce%x00%(trailers:key=Co-authored-by,valueonly,unfold)%x00";

impl GitMirror {
    /// Returns the authors of the commits that are reachable from `until` but not from `since`. If `since` is `None` or
    /// not in this repository, returns the authors of the most recent commits.
    pub fn authors(&self, since: Option<&CommitHash>, until: &CommitHash) -> Result<ChangeAuthors, GitError> {
        let since = match since {
            Some(commit) if self.has_commit(commit)? => Some(format!("^{commit}")),
            _ => None,
        };
        let max = if since.is_some() { CHANGE_COMMITS_MAX + 1 } else { FIRST_CHANGE_COMMITS_MAX };
        let git = self.git().args(["log", FORMAT]).arg(format!("--max-count={max}"));
        let git = git.args(["--end-of-options", until.as_str()]).args(since.as_deref());
        let text = git.run()?.ok()?.text();
        let text = text.to_lowercase();
        let mut fields = text.split('\0').map(str::trim);
        let mut found = ChangeAuthors::default();
        let mut commits = 0;
        while let (Some(author), Some(committer), Some(trailers)) =
            (fields.next(), fields.next(), fields.next())
        {
            commits += 1;
            let committer = Some(committer).filter(|it| !PROGRAMS.contains(it));
            let named = trailers.lines().map(address).chain([author]).chain(committer);
            found.emails.extend(named.map(|it| it.chars().take(ADDRESS_CHARS_MAX).collect()));
            if commits > CHANGE_COMMITS_MAX || found.emails.len() > CHANGE_AUTHORS_MAX {
                found.is_cut = true;
                break;
            }
        }
        Ok(found)
    }

    pub(super) fn has_commit(&self, commit: &CommitHash) -> Result<bool, GitError> {
        let name = format!("{commit}^{{commit}}");
        Ok(self.git().args(["cat-file", "-e", &name]).run()?.status.success())
    }
}

/// Extracts the address from a trailer such as `Bob <bob@acme.test>`.
fn address(trailer: &str) -> &str {
    let inner = trailer.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(trailer, |(address, _)| address).trim()
}
