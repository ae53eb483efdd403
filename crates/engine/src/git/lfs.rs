//! Git LFS: replaces pointer files in a checkout by their content.
//!
//! The program `git-lfs` downloads the content, in a temporary repository that shares the objects of the mirror. The
//! server of the repository decides which URLs the program downloads from, so on a shared server only hosts that the
//! operator has listed are used.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256};
use berth_core::repository::{GitTransport, RemoteUrl};
use tempfile::TempDir;

use super::GitError;
use super::checkout::{CheckoutPart, CheckoutProgress, CheckoutRemote, join_path};
use super::mirror::GitMirror;
use super::process::{GitCommand, GrowthLimit};
use super::remote::configure_access;
use super::tree::{EntryKind, GitTreeEntry};
use crate::limits::LFS_CACHE_BYTES_MAX;
use crate::vault::hex;

/// Maximum size of a pointer file, the same as that of git-lfs.
const POINTER_BYTES_MAX: u64 = 1024;
const POINTER_START: &str = "version https://git-lfs.github.com/spec/v1\n";
/// Maximum number of bytes read of a `.gitattributes` file.
const ATTRIBUTES_BYTES_MAX: u64 = 1024 * 1024;
/// What a `.gitattributes` file contains if some files are in Git LFS.
const LFS_ATTRIBUTE: &str = "filter=lfs";
/// Git's error if the program is not installed.
const NOT_INSTALLED: &str = "'lfs' is not a git command";
const NO_PLACE: &str = "there is no place for files of Git LFS";

/// Settings of git-lfs: time limits, and no transfer programs.
const SETTINGS: &[&str] = &[
    "lfs.basictransfersonly=true",
    "lfs.concurrenttransfers=3",
    "lfs.dialtimeout=20",
    "lfs.activitytimeout=60",
    "lfs.transfer.maxretries=1",
    "lfs.fetchinclude=",
    "lfs.fetchexclude=",
];

/// A file whose content is in Git LFS.
struct LfsPointer {
    /// Relative to the root of its repository.
    path: String,
    /// SHA-256 of the content, in hexadecimal.
    oid: String,
    bytes: u64,
}

impl LfsPointer {
    fn parse(path: &str, text: &str) -> Option<Self> {
        let mut fields: HashMap<_, _> =
            text.strip_prefix(POINTER_START)?.lines().filter_map(|line| line.split_once(' ')).collect();
        let oid = fields.remove("oid")?.strip_prefix("sha256:")?;
        let is_oid =
            oid.len() == 64 && oid.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let bytes = fields.remove("size")?.parse().ok()?;
        is_oid.then(|| Self { path: path.to_owned(), oid: oid.to_owned(), bytes })
    }
}

impl GitMirror {
    /// Replaces the pointer files of one repository in the checkout. `dir` has the unpacked files, and `index` the
    /// index that they were unpacked from.
    pub(super) fn replace_pointers(
        &self,
        from: CheckoutRemote<'_>,
        part: &CheckoutPart,
        entries: &[GitTreeEntry],
        (dir, index): (&Path, &TempDir),
        progress: &mut CheckoutProgress<'_>,
    ) -> Result<(), GitError> {
        let pointers = part.mirror.find_pointers(entries, dir, index)?;
        progress.count_bytes(pointers.iter().map(|it| it.bytes))?;
        let cache = self.lfs_cache();
        let missing: Vec<_> = pointers.iter().filter(|it| !cache.join(&it.oid).exists()).collect();
        if let (Some(first), Some(url)) = (missing.first(), &part.url) {
            let first = join_path(&part.path, &first.path);
            DirBuilder::new().recursive(true).mode(0o700).create(&cache).map_err(GitError::io(NO_PLACE))?;
            make_room(&cache, &pointers);
            from.access.check(url)?;
            match url.local_path() {
                Some(path) => copy_local(Path::new(path), &cache, &missing)?,
                None => self.download(from, url, part, &missing, progress.deadline).map_err(|error| match error {
                    GitError::Failed(text) if text.contains(NOT_INSTALLED) => GitError::Missing(format!(
                        "{first} is stored in Git LFS; install git-lfs on the server (apt-get install git-lfs)"
                    )),
                    GitError::Failed(text) => {
                        GitError::Failed(format!("{first} cannot be fetched from Git LFS: {text}"))
                    }
                    GitError::Refused(text) => GitError::Refused(format!("{first} is stored in Git LFS; {text}")),
                    error => error,
                })?,
            }
        }
        for pointer in &pointers {
            let content = cache.join(&pointer.oid);
            // The limit of the checkout was checked with the size in the pointer.
            if std::fs::metadata(&content).map_err(GitError::io(NO_PLACE))?.len() != pointer.bytes {
                return Err(GitError::Refused(format!("the content of {} has the wrong size", pointer.path)));
            }
            write_content(&content, &dir.join(&pointer.path))?;
        }
        Ok(())
    }

    /// Finds pointer files that the attributes of the commit assign to Git LFS.
    fn find_pointers(
        &self,
        entries: &[GitTreeEntry],
        dir: &Path,
        index: &TempDir,
    ) -> Result<Vec<LfsPointer>, GitError> {
        let files = || entries.iter().filter(|it| matches!(it.kind, EntryKind::File | EntryKind::Executable));
        let is_attributes = |it: &&GitTreeEntry| it.path.rsplit('/').next() == Some(".gitattributes");
        let names_lfs =
            |it: &GitTreeEntry| read_text(&dir.join(&it.path), ATTRIBUTES_BYTES_MAX).contains(LFS_ATTRIBUTE);
        if !files().filter(is_attributes).any(names_lfs) {
            return Ok(Vec::new());
        }
        let small = files().filter(|it| it.bytes < POINTER_BYTES_MAX);
        let found: Vec<_> = small
            .filter_map(|it| LfsPointer::parse(&it.path, &read_text(&dir.join(&it.path), POINTER_BYTES_MAX)))
            .collect();
        let list = index.path().join("pointers");
        let names: String = found.iter().map(|it| format!("{}\0", it.path)).collect();
        let list =
            std::fs::write(&list, names).and_then(|()| File::open(&list)).map_err(GitError::io(NO_PLACE))?;
        let git = self.git().arg("--work-tree").arg(dir).env("GIT_INDEX_FILE", index.path().join("index"));
        let git = git.args(["check-attr", "--cached", "-z", "--stdin", "filter"]).stdin_file(list);
        let text = git.run()?.ok()?.text();
        let mut fields = text.split('\0');
        let mut filters = HashMap::new();
        while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
            filters.insert(path, value);
        }
        Ok(found.into_iter().filter(|it| filters.get(it.path.as_str()) == Some(&"lfs")).collect())
    }

    /// Directory with the downloaded content of a repository and its submodules, named by hash.
    pub(super) fn lfs_cache(&self) -> PathBuf {
        self.path.with_extension("lfs")
    }

    /// Downloads the files of a commit into the cache.
    fn download(
        &self,
        from: CheckoutRemote<'_>,
        url: &RemoteUrl,
        part: &CheckoutPart,
        missing: &[&LfsPointer],
        deadline: Instant,
    ) -> Result<(), GitError> {
        if !from.access.is_listed(url) {
            let host = url.host().unwrap_or_default();
            return Err(GitError::Refused(format!(
                "the server's operator can allow downloads that {host} refers to with --repository-host {host}"
            )));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(GitError::TooSlow(self.time_max.as_secs()));
        }
        let failed = || GitError::io(NO_PLACE);
        // The cache is not readable for steps, and renaming a file within it is atomic.
        let place = tempfile::tempdir_in(self.lfs_cache()).map_err(failed())?;
        let repository = place.path().join("repository.git");
        let made = GitCommand::without_repository(&self.live, left).hide(&repository.to_string_lossy());
        made.args(["init", "--quiet", "--bare", "--template="]).arg(&repository).run()?.ok()?;
        let objects = part.mirror.path.join("objects");
        let shared = format!("{}\n", std::path::absolute(objects).map_err(failed())?.display());
        std::fs::create_dir_all(repository.join("objects/info"))
            .and_then(|()| std::fs::write(repository.join("objects/info/alternates"), shared))
            .map_err(failed())?;

        let is_same_server = from.url.is_same_server(url);
        let credential = if is_same_server { (from.credential)()? } else { None };
        let bytes = missing.iter().fold(0u64, |sum, it| sum.saturating_add(it.bytes));
        // The temporary repository has a few small files of its own.
        let growth = GrowthLimit { of: repository.clone(), bytes_max: bytes.saturating_add(1024 * 1024) };
        let git = GitCommand::in_mirror(&self.live, left, &repository).with_growth_limit(growth);
        let (mut git, key) = configure_access(self, git, url, credential.as_ref(), from.access)?;
        for setting in SETTINGS {
            git = git.args(["-c", setting]);
        }
        git = git.arg("-c").arg(format!("remote.origin.url={}", url.as_str()));
        if matches!(url.transport(), GitTransport::Https | GitTransport::Http) {
            let endpoint = lfs_endpoint(url);
            git = git.arg("-c").arg(format!("lfs.url={endpoint}"));
            if credential.is_some() {
                git = git.arg("-c").arg(format!("lfs.{endpoint}.access=basic"));
            }
        }
        let fetched = git.args(["lfs", "fetch", "origin", part.commit.as_str()]).run();
        drop(key);
        let ended = fetched?.ok();
        for pointer in missing {
            // Several files can have the same content.
            if self.lfs_cache().join(&pointer.oid).exists() {
                continue;
            }
            let (first, second) = (&pointer.oid[..2], &pointer.oid[2..4]);
            let file = repository.join("lfs/objects").join(first).join(second).join(&pointer.oid);
            // The program also looks for files that only resemble pointers, so its failure does not matter if all
            // files that are needed are there.
            if let (false, Err(GitError::Failed(text))) = (file.exists(), &ended) {
                return Err(GitError::Failed(text.clone()));
            }
            store_content(&file, &self.lfs_cache(), pointer)?;
        }
        Ok(())
    }
}

/// The endpoint that git-lfs derives from a URL.
fn lfs_endpoint(url: &RemoteUrl) -> String {
    let base = url.as_str().trim_end_matches('/');
    let suffix = if base.ends_with(".git") { "" } else { ".git" };
    format!("{base}{suffix}/info/lfs")
}

/// Copies content from the LFS directory of a repository on the server's disk.
fn copy_local(repository: &Path, cache: &Path, missing: &[&LfsPointer]) -> Result<(), GitError> {
    for pointer in missing {
        let name =
            Path::new("lfs/objects").join(&pointer.oid[..2]).join(&pointer.oid[2..4]).join(&pointer.oid);
        let inside = repository.join(".git").join(&name);
        let file = if inside.exists() { inside } else { repository.join(name) };
        let found = std::fs::symlink_metadata(&file);
        if !found.is_ok_and(|found| found.is_file() && found.len() == pointer.bytes) {
            return Err(absent_error(pointer));
        }
        let copied = tempfile::NamedTempFile::new_in(cache).map_err(GitError::io(NO_PLACE))?;
        std::fs::copy(&file, copied.path()).map_err(GitError::io(NO_PLACE))?;
        store_content(copied.path(), cache, pointer)?;
    }
    Ok(())
}

/// Moves a file into the cache if it has the content that the pointer names.
fn store_content(file: &Path, cache: &Path, pointer: &LfsPointer) -> Result<(), GitError> {
    let failed = || GitError::io(NO_PLACE);
    let Ok(mut content) = File::open(file) else { return Err(absent_error(pointer)) };
    let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 64 * 1024]);
    loop {
        match content.read(&mut buffer).map_err(failed())? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    if hex(context.finish().as_ref()) != pointer.oid {
        return Err(GitError::Refused(format!("the content of {} has the wrong hash", pointer.path)));
    }
    std::fs::rename(file, cache.join(&pointer.oid)).map_err(failed())
}

fn absent_error(pointer: &LfsPointer) -> GitError {
    GitError::Failed(format!("the remote does not have the content of {}; run `git lfs push`", pointer.path))
}

/// Removes files that are not needed now if the cache would become too large.
fn make_room(cache: &Path, needed: &[LfsPointer]) {
    let files = || std::fs::read_dir(cache).into_iter().flatten().flatten();
    let kept = files().filter_map(|it| it.metadata().ok()).fold(0u64, |sum, it| sum.saturating_add(it.len()));
    let wanted = needed.iter().fold(0u64, |sum, it| sum.saturating_add(it.bytes));
    if kept.saturating_add(wanted) <= LFS_CACHE_BYTES_MAX {
        return;
    }
    for file in files().filter(|it| !needed.iter().any(|pointer| it.file_name() == pointer.oid.as_str())) {
        if file.file_type().is_ok_and(|kind| kind.is_file())
            && let Err(error) = std::fs::remove_file(file.path())
        {
            tracing::warn!(%error, "removing a cached file of Git LFS failed");
        }
    }
}

/// Replaces the content of a file in the checkout. Its mode stays the same.
fn write_content(content: &Path, file: &Path) -> Result<(), GitError> {
    let failed = || GitError::io("a file of Git LFS cannot be written");
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut target =
        OpenOptions::new().write(true).truncate(true).custom_flags(no_follow).open(file).map_err(failed())?;
    let mut source = File::open(content).map_err(failed())?;
    std::io::copy(&mut source, &mut target).and_then(|_| target.flush()).map_err(failed())
}

/// Reads the beginning of a file. Returns an empty string if it cannot be read.
fn read_text(path: &Path, bytes_max: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
    if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
}
