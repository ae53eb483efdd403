//! The files of one call: where its task lies if it is a file, where it writes its answer, and where it logs.
//!
//! ```text
//! DIR/call-<random>/answer.json     not there until the process writes it
//! DIR/call-<random>/logs/<id>.jsonl
//! ```
//!
//! The process may replace all of it. The directories are held open from the beginning, and nothing that stands in
//! their place later is looked at.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::de::IgnoredAny;

use super::file;
use super::journal::Journal;
use crate::chance;
use crate::process::{Beside, Host};

const ANSWER: &str = "answer.json";
/// Where the kernel does not tell about changes.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Also where it does, for what it may have missed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Of one look at what the kernel tells.
const TOLD_READS_MAX: usize = 16;
/// As much of an answer's end is looked at before all of it is.
const TAIL_BYTES: u64 = 16;

pub(super) struct Exchange {
    pub(super) id: String,
    pub(super) answer_path: PathBuf,
    pub(super) log_dir: PathBuf,
    dir: OwnedFd,
    logs: OwnedFd,
    told: Option<OwnedFd>,
    journal: Journal,
    bytes_max: u64,
    /// What the answer looked like when it was found to be incomplete.
    seen: Option<(u64, i64, i64)>,
    is_answered: bool,
}

impl Exchange {
    pub(super) fn new(parent: &Path, bytes_max: usize) -> io::Result<Self> {
        let id = format!("call-{}", chance::name()?);
        let path = parent.join(&id);
        let log_dir = path.join("logs");
        for dir in [&path, &log_dir] {
            DirBuilder::new().mode(0o700).create(dir)?;
        }
        // Without it, the files are looked at more often.
        let told = watch(&[&path, &log_dir]).inspect_err(|error| {
            tracing::warn!("the kernel does not tell about changed files: {error}");
        });
        Ok(Self {
            dir: open_dir(&path)?,
            logs: open_dir(&log_dir)?,
            answer_path: path.join(ANSWER),
            log_dir,
            told: told.ok(),
            journal: Journal::new(format!("{id}.jsonl")),
            bytes_max: bytes_max as u64,
            seen: None,
            is_answered: false,
            id,
        })
    }

    /// After the process has ended: the rest of its log, and what it has answered. Nothing when there is no file, or an
    /// empty one; `Err` says what is in its place.
    pub(super) fn finish(mut self, host: &dyn Host) -> Result<Option<Vec<u8>>, String> {
        self.journal.finish(self.logs.as_fd(), host);
        let wrong = |error: io::Error| format!("its answer cannot be read: {error}");
        let found = match file::open_in(self.dir.as_fd(), ANSWER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(wrong)?,
        };
        let bytes = file::read(found, self.bytes_max).map_err(wrong)?;
        Ok((!bytes.iter().all(u8::is_ascii_whitespace)).then_some(bytes))
    }

    /// A file that was only begun is no answer: it is one when it is whole.
    fn has_answer(&mut self) -> bool {
        let Ok(found) = file::open_in(self.dir.as_fd(), ANSWER) else { return false };
        let Ok(meta) = found.metadata() else { return false };
        let looks = Some((meta.len(), meta.mtime(), meta.mtime_nsec()));
        if self.seen == looks || meta.len() > self.bytes_max {
            return false;
        }
        self.seen = looks;
        let mut tail = [0; TAIL_BYTES as usize];
        let length = found.read_at(&mut tail, meta.len().saturating_sub(TAIL_BYTES)).unwrap_or(0);
        let last = tail[..length].iter().rfind(|byte| !byte.is_ascii_whitespace());
        if last != Some(&b'}') {
            return false;
        }
        let bytes = file::read(found, self.bytes_max).unwrap_or_default();
        is_whole(&bytes)
    }
}

/// Is it JSON to its end?
pub(super) fn is_whole(answer: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(answer).is_ok()
}

impl Beside for Exchange {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.told.as_ref().map(AsFd::as_fd)
    }

    fn tick(&self) -> Duration {
        if self.told.is_some() { LOOK_AGAIN } else { LOOK_EVERY }
    }

    fn look(&mut self, host: &dyn Host) -> bool {
        if let Some(told) = &self.told {
            let mut buffer = [0; 4096];
            let mut reads = 0;
            while reads < TOLD_READS_MAX && rustix::io::read(told, &mut buffer).is_ok() {
                reads += 1;
            }
        }
        self.journal.look(self.logs.as_fd(), host);
        self.is_answered = self.is_answered || self.has_answer();
        self.is_answered
    }
}

fn watch(dirs: &[&Path]) -> io::Result<OwnedFd> {
    let told = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    for dir in dirs {
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        add_watch(&told, *dir, flags)?;
    }
    Ok(told)
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}
