//! Files of one call: the answer and the log.
//!
//! ```text
//! DIR/call-<random>/answer.json     created by the process
//! DIR/call-<random>/logs/<id>.jsonl
//! ```
//!
//! The process may replace any of these files and directories. The directories are therefore opened before the process
//! starts, and files are only read through these descriptors.

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
use super::step_log::StepLogFile;
use crate::executor::{CommandMonitor, ExecutionHost};
use crate::random;

const ANSWER: &str = "answer.json";
/// Poll interval if inotify is not available.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Poll interval if inotify is available, in case it missed an event.
const INOTIFY_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of reads from the inotify descriptor per poll.
const INOTIFY_READS_MAX: usize = 16;
/// Number of bytes at the end of the answer file that are checked before the whole file is parsed.
const TAIL_BYTES: u64 = 16;

pub(super) struct CallFiles {
    pub(super) id: String,
    pub(super) answer_path: PathBuf,
    pub(super) log_dir: PathBuf,
    dir: OwnedFd,
    logs: OwnedFd,
    inotify: Option<OwnedFd>,
    journal: StepLogFile,
    bytes_max: u64,
    /// Length and modification time of the answer file when it was last found to be incomplete.
    last_incomplete: Option<(u64, i64, i64)>,
    is_answered: bool,
}

impl CallFiles {
    pub(super) fn new(parent: &Path, bytes_max: usize) -> io::Result<Self> {
        let id = format!("call-{}", random::random_hex()?);
        let path = parent.join(&id);
        let log_dir = path.join("logs");
        for dir in [&path, &log_dir] {
            DirBuilder::new().mode(0o700).create(dir)?;
        }
        // If inotify is not available, the files are polled more often.
        let told = watch_dirs(&[&path, &log_dir]).inspect_err(|error| {
            tracing::warn!(%error, "inotify unavailable; polling files");
        });
        Ok(Self {
            dir: open_dir(&path)?,
            logs: open_dir(&log_dir)?,
            answer_path: path.join(ANSWER),
            log_dir,
            inotify: told.ok(),
            journal: StepLogFile::new(format!("{id}.jsonl")),
            bytes_max: bytes_max as u64,
            last_incomplete: None,
            is_answered: false,
            id,
        })
    }

    /// Reads the rest of the log and the answer after the process has ended. Returns `None` if the answer file does not
    /// exist or is empty.
    pub(super) fn finish(mut self, host: &dyn ExecutionHost) -> Result<Option<Vec<u8>>, String> {
        self.journal.finish(self.logs.as_fd(), host);
        let wrong = |error: io::Error| format!("its answer cannot be read: {error}");
        let found = match file::open_in(self.dir.as_fd(), ANSWER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(wrong)?,
        };
        let bytes = file::read(found, self.bytes_max).map_err(wrong)?;
        Ok((!bytes.iter().all(u8::is_ascii_whitespace)).then_some(bytes))
    }

    /// Whether the answer file is complete. A partially written file does not count.
    fn has_answer(&mut self) -> bool {
        let Ok(found) = file::open_in(self.dir.as_fd(), ANSWER) else { return false };
        let Ok(meta) = found.metadata() else { return false };
        let looks = Some((meta.len(), meta.mtime(), meta.mtime_nsec()));
        if self.last_incomplete == looks || meta.len() > self.bytes_max {
            return false;
        }
        self.last_incomplete = looks;
        let mut tail = [0; TAIL_BYTES as usize];
        let length = found.read_at(&mut tail, meta.len().saturating_sub(TAIL_BYTES)).unwrap_or(0);
        let last = tail[..length].iter().rfind(|byte| !byte.is_ascii_whitespace());
        if last != Some(&b'}') {
            return false;
        }
        let bytes = file::read(found, self.bytes_max).unwrap_or_default();
        is_complete_json(&bytes)
    }
}

/// Whether the bytes are a complete JSON document.
pub(super) fn is_complete_json(answer: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(answer).is_ok()
}

impl CommandMonitor for CallFiles {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    fn poll_interval(&self) -> Duration {
        if self.inotify.is_some() { INOTIFY_POLL_INTERVAL } else { POLL_INTERVAL }
    }

    fn poll(&mut self, host: &dyn ExecutionHost) -> bool {
        if let Some(told) = &self.inotify {
            let mut buffer = [0; 4096];
            let mut reads = 0;
            while reads < INOTIFY_READS_MAX && rustix::io::read(told, &mut buffer).is_ok() {
                reads += 1;
            }
        }
        self.journal.write_new_lines(self.logs.as_fd(), host);
        self.is_answered = self.is_answered || self.has_answer();
        self.is_answered
    }
}

fn watch_dirs(dirs: &[&Path]) -> io::Result<OwnedFd> {
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
