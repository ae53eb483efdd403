//! Directories of one attempt.
//!
//! ```text
//! WORK_DIR/attempts/<random>/workspace   the checkout; working directory of the step's processes
//!                            home        HOME
//!                            tmp         TMPDIR
//!                            output-…    BERTH_OUTPUT
//! WORK_DIR/attempts/<random>.secrets     the path of the attempt's directory for secret files, if it has one;
//!                                        that directory is on a tmpfs: /dev/shm/berth-UID/…
//! ```
//!
//! The `.secrets` file is called the note. It is next to the attempt's directory, because the step can replace anything
//! inside that directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use berth_api::runner::SecretText;
use rustix::fs::{Mode, OFlags, open, statfs};
use rustix::process::geteuid;

use super::removal::remove_tree;
use crate::random;
use crate::settings::RunnerOptions;

const ATTEMPTS: &str = "attempts";
const NOTE: &str = "secrets";
/// Maximum size of the note (PATH_MAX).
const NOTE_BYTES_MAX: u64 = 4 * 1024;
/// File system type of a tmpfs: TMPFS_MAGIC in statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;

pub(crate) struct AttemptDirs {
    /// Unique across attempts and runners.
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) tmp: PathBuf,
    pub(crate) output: PathBuf,
    /// Directory for secret files, on a tmpfs. Only exists if the step has secret files.
    pub(crate) secrets: PathBuf,
    pub(crate) secret_files: std::cell::OnceCell<BTreeMap<String, PathBuf>>,
    has_secret_task: std::cell::Cell<bool>,
    is_given_to_user: std::cell::Cell<bool>,
}

pub(crate) fn attempts_dir(work_dir: &Path) -> PathBuf {
    work_dir.join(ATTEMPTS)
}

impl AttemptDirs {
    pub(crate) fn create(settings: &RunnerOptions) -> io::Result<Self> {
        let id = random::random_hex()?;
        let dir = attempts_dir(&settings.work_dir).join(&id);
        let [workspace, home, tmp] = ["workspace", "home", "tmp"].map(|name| dir.join(name));
        for dir in [&dir, &workspace, &home, &tmp] {
            create_private_dir(dir)?;
        }
        let output = dir.join(format!("output-{}", &random::random_hex()?[..8]));
        write_private_file(&output, b"")?;
        let secrets = find_tmpfs(&settings.secret_dirs);
        Ok(Self {
            workspace,
            home,
            tmp,
            output,
            secrets: secrets
                .map(|dir| dir.join(secrets_parent_name(settings)).join(format!("berth-{id}")))
                .unwrap_or_default(),
            secret_files: std::cell::OnceCell::new(),
            has_secret_task: std::cell::Cell::new(false),
            is_given_to_user: std::cell::Cell::new(false),
            dir,
            id,
        })
    }

    pub(crate) fn write_secret_files(
        &self,
        settings: &RunnerOptions,
        files: &BTreeMap<String, SecretText>,
    ) -> Result<(), String> {
        let mut paths = BTreeMap::new();
        if !files.is_empty() {
            self.require_tmpfs("`secret_files` and `id_token`", settings)?;
            let written = (|| {
                self.create_secrets_dir(settings)?;
                for (index, (name, value)) in files.iter().enumerate() {
                    let path = self.secrets.join(index.to_string());
                    write_private_file(&path, value.reveal().as_bytes())?;
                    paths.insert(name.clone(), path);
                }
                Ok::<(), io::Error>(())
            })();
            written.map_err(|error| format!("cannot write the secret files: {error}"))?;
        }
        self.secret_files.set(paths).ok();
        Ok(())
    }

    /// Writes the input of a custom step to a file. The file is on the tmpfs if the input contains a secret.
    pub(crate) fn write_task_file(
        &self,
        settings: &RunnerOptions,
        task: &str,
        is_secret: bool,
    ) -> Result<PathBuf, String> {
        let cannot = |error: io::Error| format!("cannot write the step's input: {error}");
        if !is_secret {
            let path = self.dir.join("task.json");
            write_private_file(&path, task.as_bytes()).map_err(cannot)?;
            return Ok(path);
        }
        self.require_tmpfs("params that hold a secret", settings)?;
        if !self.has_secrets() {
            self.create_secrets_dir(settings).map_err(cannot)?;
        }
        self.has_secret_task.set(true);
        let path = self.secrets.join("task.json");
        write_private_file(&path, task.as_bytes()).map_err(cannot)?;
        Ok(path)
    }

    pub(crate) fn has_secrets(&self) -> bool {
        self.has_secret_task.get() || self.secret_files.get().is_some_and(|files| !files.is_empty())
    }

    fn require_tmpfs(&self, what: &str, settings: &RunnerOptions) -> Result<(), String> {
        if !self.secrets.as_os_str().is_empty() {
            return Ok(());
        }
        Err(format!(
            "{what} need a tmpfs, and none of {:?} is one: secrets are not written to a disk",
            settings.secret_dirs
        ))
    }

    /// Creates the directory for secret files. The note is written first, so that cleanup can find the secrets even if
    /// the runner crashes in between.
    fn create_secrets_dir(&self, settings: &RunnerOptions) -> io::Result<()> {
        write_private_file(&secrets_note_path(&self.dir), self.secrets.as_os_str().as_encoded_bytes())?;
        if let Some(parent) = self.secrets.parent() {
            ensure_private_dir(parent)?;
            settings.confinement.allow_traverse(parent)?;
        }
        create_private_dir(&self.secrets)
    }

    /// Makes the step user the owner of all files. Call this when all files are in place, before the first process
    /// starts; later calls do nothing.
    pub(crate) fn give_to_step_user(&self, settings: &RunnerOptions) -> io::Result<()> {
        if self.is_given_to_user.replace(true) {
            return Ok(());
        }
        settings.confinement.give_to_step_user(&self.dir)?;
        if self.has_secrets() { settings.confinement.give_to_step_user(&self.secrets) } else { Ok(()) }
    }

    pub(crate) fn remove_secrets(&self) {
        if self.has_secrets() {
            remove_secrets_of(&self.dir);
        }
    }
}

fn secrets_note_path(dir: &Path) -> PathBuf {
    dir.with_extension(NOTE)
}

/// Returns the attempt directory that an entry of the `attempts` directory belongs to. The entry may be the directory
/// itself or its note.
pub(crate) fn attempt_dir_of_entry(entry: PathBuf) -> PathBuf {
    if entry.extension() == Some(OsStr::new(NOTE)) { entry.with_extension("") } else { entry }
}

/// Removes an attempt's secrets, its directory and its note, in this order: the note is needed until the secrets have
/// been removed.
pub(crate) fn remove_attempt(dir: &Path) {
    remove_secrets_of(dir);
    remove_tree(dir);
    remove_tree(&secrets_note_path(dir));
}

fn remove_secrets_of(dir: &Path) {
    if let Some(path) = read_secrets_note(&secrets_note_path(dir)) {
        // A step without a sandbox could have written the note, so only remove a directory whose name the runner itself
        // would have chosen.
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy() == format!("berth-{id}"));
        if is_ours && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            remove_tree(&path);
        }
    }
}

/// Reads the note. Does not follow symlinks, does not block on a FIFO, and limits the size.
fn read_secrets_note(path: &Path) -> Option<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(NOTE_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&text)))
}

/// Returns the first of the candidate directories that is on a tmpfs.
fn find_tmpfs(places: &[PathBuf]) -> Option<PathBuf> {
    let is_tmpfs = |path: &&PathBuf| {
        statfs(path.as_path())
            .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == TMPFS_MAGIC))
    };
    places.iter().find(is_tmpfs)?.canonicalize().ok()
}

/// Returns the name of the parent directory for secrets. Each combination of runner user and step user has its own.
fn secrets_parent_name(settings: &RunnerOptions) -> String {
    let own = format!("berth-{}", geteuid().as_raw());
    settings.confinement.user().map_or(own.clone(), |user| format!("{own}-{}", user.uid()))
}

/// Creates a private directory, or checks the owner and mode of an existing one. The tmpfs is world-writable, so
/// another user could have created the directory.
fn ensure_private_dir(path: &Path) -> io::Result<()> {
    match create_private_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = path.symlink_metadata()?;
    // The group may have execute permission, which lets the step user traverse the directory.
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o067 == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} belongs to another user, or other users may enter it", path.display())))
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

pub(crate) fn write_private_file(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}
