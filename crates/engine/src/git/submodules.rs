//! Submodules: finds them in a commit, and fetches the recorded commits into mirrors next to the repository's mirror.
//!
//! `.gitmodules` is untrusted: its URLs are subject to the same rules as those of repositories, and the repository's
//! credential is only sent to the server that it belongs to.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use aws_lc_rs::digest;
use berth_core::repository::{GitTransport, RemoteUrl};

use super::branch::GitRemote;
use super::checkout::{CheckoutPart, CheckoutProgress, CheckoutRemote, join_path};
use super::fetch::FetchOptions;
use super::mirror::GitMirror;
use super::process::directory_size;
use super::tree::{EntryKind, GitTreeEntry};
use super::{CommitHash, GitError};
use crate::limits::{
    SUBMODULE_COMMITS_MAX, SUBMODULE_DEPTH_MAX, SUBMODULE_MIRRORS_MAX, SUBMODULE_SETTINGS_BYTES_MAX,
    SUBMODULES_MAX,
};
use crate::vault::hex;

const SETTINGS_FILE: &str = ".gitmodules";
/// Errors of git if the remote does not have a commit, or does not let clients fetch single commits.
const NO_SUCH_COMMIT: &str = "not our ref";
const NO_SINGLE_COMMITS: &str = "unadvertised object";

/// A section of `.gitmodules`.
#[derive(Default)]
struct SubmoduleSettings {
    path: Option<String>,
    url: Option<String>,
    update: Option<String>,
}

impl GitMirror {
    /// Returns the submodules of a repository that has been unpacked. A repository without `.gitmodules` has none.
    pub(super) fn find_submodules(
        &self,
        part: &CheckoutPart,
        entries: &[GitTreeEntry],
        progress: &mut CheckoutProgress<'_>,
    ) -> Result<Vec<CheckoutPart>, GitError> {
        let links: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::Submodule).collect();
        let (Some(base), false) = (&part.url, links.is_empty()) else { return Ok(Vec::new()) };
        let Some(settings) = part.mirror.read_submodule_settings(&part.commit)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for link in links {
            let path = join_path(&part.path, &link.path);
            let refuse = |why: String| GitError::Refused(format!("submodule {path}: {why}"));
            let missing = || refuse(format!("{SETTINGS_FILE} has no url for it"));
            let listed = settings.get(&link.path).ok_or_else(missing)?;
            if listed.update.as_deref() == Some("none") {
                continue;
            }
            let url = listed.url.as_deref().ok_or_else(missing)?;
            let url = base.join(url).map_err(|why| refuse(format!("its url in {SETTINGS_FILE} {why}")))?;
            if part.depth == SUBMODULE_DEPTH_MAX {
                return Err(refuse(format!(
                    "submodules are nested more than {SUBMODULE_DEPTH_MAX} levels deep"
                )));
            }
            progress.submodules += 1;
            if progress.submodules > SUBMODULES_MAX {
                return Err(GitError::TooLarge(format!(
                    "the commit has more than {SUBMODULES_MAX} submodules"
                )));
            }
            let commit = CommitHash::parse(&link.sha).ok_or_else(missing)?;
            let mirror = self.submodule_mirror(&url);
            found.push(CheckoutPart { mirror, url: Some(url), commit, path, depth: part.depth + 1 });
        }
        Ok(found)
    }

    /// Reads `.gitmodules`: the settings of each submodule, by path. Returns `None` if there is no such file.
    fn read_submodule_settings(
        &self,
        commit: &CommitHash,
    ) -> Result<Option<HashMap<String, SubmoduleSettings>>, GitError> {
        if self.read(commit, SETTINGS_FILE, SUBMODULE_SETTINGS_BYTES_MAX)?.is_none() {
            return Ok(None);
        }
        let git = self.git().args(["config", "--null", "--blob"]).arg(format!("{commit}:{SETTINGS_FILE}"));
        let ran = git.args(["--get-regexp", r"^submodule\."]).run()?;
        // Git exits with 1 if no setting matches.
        let text = if ran.status.code() == Some(1) { String::new() } else { ran.ok()?.text() };
        let mut sections: HashMap<&str, SubmoduleSettings> = HashMap::new();
        for line in text.split('\0') {
            let Some((key, value)) = line.split_once('\n') else { continue };
            let Some((name, setting)) = key.rsplit_once('.') else { continue };
            let section = sections.entry(name).or_default();
            match setting {
                "path" => section.path = Some(value.trim_end_matches('/').to_owned()),
                "url" => section.url = Some(value.to_owned()),
                "update" => section.update = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(Some(sections.into_values().filter_map(|it| Some((it.path.clone()?, it))).collect()))
    }

    fn submodules_dir(&self) -> PathBuf {
        self.path.with_extension("submodules")
    }

    /// The mirror of a submodule. It is named by the hash of its URL, so that moving a submodule keeps its mirror.
    fn submodule_mirror(&self, url: &RemoteUrl) -> GitMirror {
        let hash = hex(digest::digest(&digest::SHA256, url.as_str().as_bytes()).as_ref());
        GitMirror {
            path: self.submodules_dir().join(format!("{}.git", &hash[..32])),
            lock: self.submodule_lock.clone(),
            ..self.clone()
        }
    }

    /// Fetches the commit of a submodule, unless its mirror already has it.
    pub(super) fn fetch_submodule(
        &self,
        from: CheckoutRemote<'_>,
        url: &RemoteUrl,
        part: &CheckoutPart,
        progress: &CheckoutProgress<'_>,
    ) -> Result<(), GitError> {
        if url.transport() == GitTransport::Local && from.url.transport() != GitTransport::Local {
            let text = "its url is a path, which only a repository on the server's own disk may use";
            return Err(GitError::Refused(text.into()));
        }
        from.access.check(url)?;
        part.mirror.mark_used();
        let is_there = part.mirror.path.join("HEAD").exists();
        if is_there && part.mirror.verify(&commit_ref(&part.commit))?.is_some() {
            return Ok(());
        }
        let is_same_server = from.url.is_same_server(url);
        let credential = if is_same_server { (from.credential)()? } else { None };
        let remote = GitRemote { url, credential: credential.as_ref(), access: from.access };
        self.evict_submodules(progress.began, SUBMODULE_MIRRORS_MAX);
        let mut fetched = self.fetch_submodule_commit(&remote, part, progress.deadline);
        if matches!(fetched, Err(GitError::TooLarge(_))) && self.evict_submodules(progress.began, 0) {
            fetched = self.fetch_submodule_commit(&remote, part, progress.deadline);
        }
        fetched.map_err(|error| match error {
            GitError::TooLarge(_) => GitError::TooLarge(format!(
                "with its submodules, the repository is larger than the limit of {} MiB",
                self.bytes_max / (1024 * 1024)
            )),
            GitError::Failed(text) if !is_same_server && from.url.host() == url.host() => {
                GitError::Failed(format!(
                    "{text}; to use the repository's credential for it, write a relative url such as ../name.git \
                     in {SETTINGS_FILE}"
                ))
            }
            error => error,
        })
    }

    fn fetch_submodule_commit(
        &self,
        remote: &GitRemote<'_>,
        part: &CheckoutPart,
        deadline: Instant,
    ) -> Result<(), GitError> {
        let commit = &part.commit;
        let held = part.mirror.lock_exclusive()?;
        // Other submodules, and the repository itself, count towards the limit.
        let used_by_others = self.size_with_submodules().saturating_sub(part.mirror.size());
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(GitError::TooSlow(self.time_max.as_secs()));
        }
        let bytes_max = self.bytes_max.saturating_sub(used_by_others);
        let mirror = GitMirror { bytes_max, time_max: left, ..part.mirror.clone() };
        mirror.ensure_created()?;
        let name = commit_ref(commit);
        if mirror.verify(&name)?.is_some() {
            return Ok(());
        }
        if mirror.count_refs("refs/submodules")? >= SUBMODULE_COMMITS_MAX {
            mirror.remove_locked()?;
            mirror.ensure_created()?;
        }
        // One pack becomes visible as a whole, so a killed git leaves no commit without its files.
        let options = FetchOptions { is_one_pack: true, is_shallow: true, ..FetchOptions::default() };
        let fetched = match mirror.run_fetch(remote, options, &[&format!("+{commit}:{name}")]) {
            Err(GitError::Failed(text)) if text.contains(NO_SINGLE_COMMITS) => {
                mirror.fetch_branches(remote).and_then(|()| mirror.keep_commit(commit))
            }
            Err(GitError::Failed(text)) if text.contains(NO_SUCH_COMMIT) => Err(no_commit_error(commit)),
            other => other,
        };
        if matches!(fetched, Err(GitError::TooLarge(_))) && mirror.is_over_limit() {
            mirror.remove_locked()?;
        }
        fetched?;
        mirror.pack();
        drop(held);
        mirror.verify(&name)?.map(drop).ok_or_else(|| no_commit_error(commit))
    }

    /// Creates the ref of a commit that was fetched as part of a branch.
    fn keep_commit(&self, commit: &CommitHash) -> Result<(), GitError> {
        let commit = self.verify(commit.as_str())?.ok_or_else(|| no_commit_error(commit))?;
        let git = self.git().args(["update-ref", "--end-of-options", &commit_ref(&commit), commit.as_str()]);
        git.run()?.ok().map(drop)
    }

    fn size(&self) -> u64 {
        directory_size(&self.path.join("objects"))
    }

    fn size_with_submodules(&self) -> u64 {
        let mirrors = self.list_submodule_mirrors();
        mirrors.into_iter().fold(self.size(), |sum, (_, mirror)| sum.saturating_add(mirror.size()))
    }

    /// The mirrors of submodules and when each was last used, most recent first.
    fn list_submodule_mirrors(&self) -> Vec<(SystemTime, GitMirror)> {
        let entries = std::fs::read_dir(self.submodules_dir()).into_iter().flatten().flatten();
        let paths =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "git"));
        let mut found: Vec<_> = paths
            .filter_map(|path| {
                let used_at = std::fs::metadata(path.join("HEAD")).and_then(|it| it.modified()).ok()?;
                Some((used_at, GitMirror { path, lock: self.submodule_lock.clone(), ..self.clone() }))
            })
            .collect();
        found.sort_by_key(|(used_at, _)| std::cmp::Reverse(*used_at));
        found
    }

    /// Records that the mirror is in use, so that mirrors that are not in use are evicted first.
    fn mark_used(&self) {
        let file = File::options().append(true).open(self.path.join("HEAD"));
        if let Ok(file) = file
            && let Err(error) = file.set_modified(SystemTime::now())
        {
            tracing::warn!(%error, "recording the use of a submodule's mirror failed");
        }
    }

    /// Removes mirrors of submodules that have not been used since `before`, except the `kept` most recent. Returns
    /// whether it removed any. They are fetched again when they are needed.
    fn evict_submodules(&self, before: SystemTime, kept: usize) -> bool {
        let mut has_removed = false;
        for (_, mirror) in self.list_submodule_mirrors().into_iter().skip(kept).filter(|(at, _)| *at < before)
        {
            match mirror.remove() {
                Ok(()) => has_removed = true,
                Err(error) => tracing::warn!(%error, "removing the mirror of a submodule failed"),
            }
        }
        has_removed
    }

    /// Removes the mirrors of all submodules, together with the repository's mirror.
    pub(super) fn remove_submodules(&self) -> Result<(), GitError> {
        let _held = self.submodule_lock.lock();
        match std::fs::remove_dir_all(self.submodules_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(GitError::Io { action: "the mirrors of submodules cannot be removed", source: error })
            }
            _ => Ok(()),
        }
    }
}

/// A ref that exists only if the commit was fetched with all of its files.
fn commit_ref(commit: &CommitHash) -> String {
    format!("refs/submodules/{commit}")
}

fn no_commit_error(commit: &CommitHash) -> GitError {
    GitError::Refused(format!("its remote has no commit {commit}; push the commit there"))
}
