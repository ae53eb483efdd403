//! Authors of a change: everyone its commits name as author, committer or co-author.

use berth_core::approval::ChangeAuthors;

use super::branch::BOT_EMAIL;
use super::mirror::Mirror;
use super::{GitError, Sha};
use crate::limits::{CHANGE_AUTHORS_MAX, CHANGE_COMMITS_MAX, FIRST_CHANGE_COMMITS_MAX};

/// Committers that are programs: a forge on which a person pressed a button, and Berth. The author is named all the same,
/// and a person who lies about the committer could as well name another person there.
const PROGRAMS: [&str; 2] = ["noreply@github.com", BOT_EMAIL];
/// Of what stands in place of an address.
const ADDRESS_CHARS_MAX: usize = 320;
/// Fields of a commit, each with a NUL at its end.
const FORMAT: &str = "--format=%ae%x00%ce%x00%(trailers:key=Co-authored-by,valueonly,unfold)%x00";

impl Mirror {
    /// Of the commits that `until` has and `since` has not; of the last ones where there is no `since` in this repository.
    pub fn authors(&self, since: Option<&Sha>, until: &Sha) -> Result<ChangeAuthors, GitError> {
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

    fn has_commit(&self, commit: &Sha) -> Result<bool, GitError> {
        let name = format!("{commit}^{{commit}}");
        Ok(self.git().args(["cat-file", "-e", &name]).run()?.status.success())
    }
}

/// `Bob <bob@acme.test>`
fn address(trailer: &str) -> &str {
    let inner = trailer.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(trailer, |(address, _)| address).trim()
}
