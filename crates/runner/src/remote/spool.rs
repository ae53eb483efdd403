//! Spool of started attempts. Each attempt is recorded durably before it starts. After a crash, the next process
//! reports which attempts may have run; an attempt that is not in the spool has never started.
//!
//! The first line is the id of the runner process. A line `+nonce` is written before an attempt starts, and `-nonce`
//! after it has ended. Changes to the [`SeenFences`] (`^epoch`, `=environment fence session`) are written with the same
//! fsync. The file is rewritten when it becomes too long.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use berth_api::remote::PreviousBoot;
use berth_core::environment::fence::Fence;
use parking_lot::Mutex;

use super::fences::{EnvironmentHolder, SeenFences};

const NAME: &str = "spool";
/// Maximum size of a file that is read, as a safeguard.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The file is rewritten after this many appended bytes.
const REWRITE_BYTES: usize = 1024 * 1024;

/// Durable record of started attempts.
#[derive(Debug)]
pub struct AttemptSpool {
    pages: Mutex<SpoolFile>,
}

#[derive(Debug)]
struct SpoolFile {
    dir: PathBuf,
    boot: String,
    file: File,
    /// Bytes appended since the last rewrite.
    appended: usize,
    /// A write has failed, so its line may be missing or incomplete in the file. The state in memory is correct.
    is_torn: bool,
    begun: BTreeSet<String>,
    seen: SeenFences,
}

/// What the previous process left in the work directory.
#[derive(Debug, Default)]
pub struct RecoveredSpool {
    pub before: Option<PreviousBoot>,
    pub seen: SeenFences,
}

/// Whether an attempt may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartDecision {
    Allowed,
    /// The runner has already executed work of a later holder, or of a different one with the same fence. Contains the
    /// fence of that holder.
    Refused(Fence),
}

impl AttemptSpool {
    /// Reads the spool of the previous process.
    pub fn recover(work_dir: &Path) -> io::Result<RecoveredSpool> {
        let file = match File::open(work_dir.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RecoveredSpool::default()),
            file => file?,
        };
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text)?;
        // A line that was truncated by a crash was not fsynced, so its attempt did not start.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines();
        let Some(boot) = lines.next().filter(|boot| !boot.is_empty()) else {
            return Ok(RecoveredSpool::default());
        };
        let (mut begun, mut seen) = (BTreeSet::new(), SeenFences::default());
        for line in lines {
            match line.split_at_checked(1) {
                Some(("+", nonce)) => drop(begun.insert(nonce.to_owned())),
                Some(("-", nonce)) => drop(begun.remove(nonce)),
                _ => seen.apply_line(line),
            }
        }
        let before = PreviousBoot { boot: boot.to_owned(), begun: begun.into_iter().collect() };
        Ok(RecoveredSpool { before: Some(before), seen })
    }

    /// Starts a new spool after the old one was reported to the server. The seen fences are kept.
    pub fn create(work_dir: &Path, boot: &str, seen: SeenFences) -> io::Result<Self> {
        let begun = BTreeSet::new();
        let file = rewrite_spool(work_dir, boot, &seen, &begun)?;
        let (dir, boot) = (work_dir.to_owned(), boot.to_owned());
        Ok(Self {
            pages: Mutex::new(SpoolFile { dir, boot, file, appended: 0, is_torn: false, begun, seen }),
        })
    }

    /// Durably records the start of an attempt, together with the fence of its holder. Records nothing if the attempt
    /// is refused.
    pub(crate) fn record_start(
        &self,
        nonce: &str,
        under: Option<EnvironmentHolder>,
    ) -> io::Result<StartDecision> {
        let mut pages = self.pages.lock();
        let mut text = String::new();
        if let Some(holder) = under {
            if let Some(known) = pages.seen.superseding_fence(&holder) {
                return Ok(StartDecision::Refused(known));
            }
            text = pages.seen.record(holder);
        }
        pages.begun.insert(nonce.to_owned());
        pages.append(&format!("{text}+{nonce}\n"), Durability::Synced)?;
        Ok(StartDecision::Allowed)
    }

    /// Records the end of an attempt, without an fsync: if the line is lost, the server knows the outcome anyway.
    pub(crate) fn record_end(&self, nonce: &str) {
        let mut pages = self.pages.lock();
        // An attempt that never started is not in the spool.
        if pages.begun.remove(nonce)
            && let Err(error) = pages.append(&format!("-{nonce}\n"), Durability::Buffered)
        {
            tracing::warn!(%error, "cannot write spool");
        }
    }
}

/// Whether a line has to be fsynced before the write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    Buffered,
    Synced,
}

impl SpoolFile {
    /// Appends lines for changes that were already made in memory. After a failed write, the content of the file is
    /// unknown, so the next call rewrites the file from memory.
    fn append(&mut self, text: &str, until: Durability) -> io::Result<()> {
        let is_long = self.appended + text.len() > REWRITE_BYTES;
        if std::mem::replace(&mut self.is_torn, true) || is_long {
            self.file = rewrite_spool(&self.dir, &self.boot, &self.seen, &self.begun)?;
            self.appended = 0;
        } else {
            self.appended += text.len();
            self.file.write_all(text.as_bytes())?;
            if until == Durability::Synced {
                self.file.sync_data()?;
            }
        }
        self.is_torn = false;
        Ok(())
    }
}

/// Rewrites the file atomically and durably (write, fsync, rename).
fn rewrite_spool(dir: &Path, boot: &str, seen: &SeenFences, begun: &BTreeSet<String>) -> io::Result<File> {
    let (path, fresh) = (dir.join(NAME), dir.join("spool.new"));
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
    let begun: String = begun.iter().map(|nonce| format!("+{nonce}\n")).collect();
    file.write_all(format!("{boot}\n{}{begun}", seen.to_lines()).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, &path)?;
    File::open(dir)?.sync_all()?;
    OpenOptions::new().append(true).open(&path)
}

#[cfg(test)]
mod tests {
    use berth_core::id::{EnvironmentId, SessionId};
    use berth_core::time::Timestamp;

    use super::*;

    fn previous_boot(dir: &Path) -> (String, Vec<String>) {
        let before = AttemptSpool::recover(dir).unwrap().before.unwrap();
        (before.boot, before.begun)
    }

    fn holder(environment: u8, fence: i64) -> EnvironmentHolder {
        let environment = EnvironmentId::from_parts(Timestamp::from_micros(1), [environment; 10]);
        EnvironmentHolder { environment, fence: Fence::from_number(fence), session: None }
    }

    #[test]
    fn spool_recovers_started_attempts() {
        let dir = tempfile::tempdir().unwrap();
        assert!(AttemptSpool::recover(dir.path()).unwrap().before.is_none());
        let spool = AttemptSpool::create(dir.path(), "one", SeenFences::default()).unwrap();
        for nonce in ["a", "b", "c"] {
            assert_eq!(spool.record_start(nonce, None).unwrap(), StartDecision::Allowed);
        }
        spool.record_end("b");
        drop(spool);
        assert_eq!(previous_boot(dir.path()), ("one".to_owned(), vec!["a".to_owned(), "c".to_owned()]));
        AttemptSpool::create(dir.path(), "two", SeenFences::default()).unwrap();
        assert_eq!(previous_boot(dir.path()), ("two".to_owned(), Vec::new()));
    }

    #[test]
    fn lower_fence_is_refused_after_restart() {
        let dir = tempfile::tempdir().unwrap();
        let fence = Fence::from_number;
        let spool = AttemptSpool::create(dir.path(), "one", SeenFences::default()).unwrap();
        // Fence 1 belongs to a session, 2 to its reset, and 3 to the next session. Fences 2 and 3 were issued together.
        // The last attempt starts twice.
        for number in [1, 2, 3, 3] {
            assert_eq!(
                spool.record_start("a", Some(holder(1, number))).unwrap(),
                StartDecision::Allowed,
                "{number}"
            );
        }
        assert_eq!(spool.record_start("b", Some(holder(1, 2))).unwrap(), StartDecision::Refused(fence(3)));
        assert_eq!(spool.record_start("c", Some(holder(2, 2))).unwrap(), StartDecision::Allowed);
        drop(spool);
        let left = AttemptSpool::recover(dir.path()).unwrap();
        assert_eq!(left.before.unwrap().begun, ["a", "c"], "what was refused has not begun");
        let spool = AttemptSpool::create(dir.path(), "two", left.seen).unwrap();
        assert_eq!(spool.record_start("d", Some(holder(1, 2))).unwrap(), StartDecision::Refused(fence(3)));
        assert_eq!(spool.record_start("e", Some(holder(1, 16 << 40 | 2))).unwrap(), StartDecision::Allowed);
        assert_eq!(AttemptSpool::recover(dir.path()).unwrap().seen.epoch(), 16);
    }

    #[test]
    fn same_fence_of_another_session_is_refused_after_restart() {
        let dir = tempfile::tempdir().unwrap();
        let of = |session: u8| {
            let session = SessionId::from_parts(Timestamp::from_micros(1), [session; 10]);
            Some(EnvironmentHolder { session: Some(session), ..holder(1, 3) })
        };
        let spool = AttemptSpool::create(dir.path(), "one", SeenFences::default()).unwrap();
        for under in [of(1), Some(holder(1, 3)), of(1)] {
            assert_eq!(spool.record_start("a", under).unwrap(), StartDecision::Allowed);
        }
        let refused = StartDecision::Refused(Fence::from_number(3));
        assert_eq!(spool.record_start("b", of(2)).unwrap(), refused);
        drop(spool);
        let spool =
            AttemptSpool::create(dir.path(), "two", AttemptSpool::recover(dir.path()).unwrap().seen).unwrap();
        assert_eq!(spool.record_start("c", of(2)).unwrap(), refused);
        assert_eq!(spool.record_start("d", of(1)).unwrap(), StartDecision::Allowed);
    }

    #[test]
    fn truncated_spool_line_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let spool = AttemptSpool::create(dir.path(), "one", SeenFences::default()).unwrap();
        spool.record_start("a", Some(holder(1, 123))).unwrap();
        drop(spool);
        let text = std::fs::read_to_string(dir.path().join(NAME)).unwrap();
        let cut = text.find("123").unwrap() + 2;
        std::fs::write(dir.path().join(NAME), &text[..cut]).unwrap();
        let left = AttemptSpool::recover(dir.path()).unwrap();
        assert_eq!((left.seen, left.before.unwrap().begun), (SeenFences::default(), Vec::new()));
    }

    /// Simulates a full disk, and a disk whose fsync fails. In both cases the disk recovers, and the file contains part
    /// of a line.
    #[test]
    fn failed_spool_write_is_repeated() {
        for broken in ["/dev/full", "/dev/null"] {
            let dir = tempfile::tempdir().unwrap();
            let spool = AttemptSpool::create(dir.path(), "one", SeenFences::default()).unwrap();
            let broken = OpenOptions::new().write(true).open(broken).unwrap();
            let mut whole = std::mem::replace(&mut spool.pages.lock().file, broken);
            let under = Some(holder(1, 5));
            spool.record_start("a", under).unwrap_err();
            whole.write_all(b"=env_").unwrap();
            spool.pages.lock().file = whole;
            assert_eq!(spool.record_start("b", under).unwrap(), StartDecision::Allowed);
            spool.record_end("a");
            drop(spool);
            let left = AttemptSpool::recover(dir.path()).unwrap();
            assert_eq!(left.before.unwrap().begun, ["b"]);
            assert!(left.seen.superseding_fence(&holder(1, 4)).is_some());
        }
    }

    #[test]
    fn long_spool_is_rewritten_without_loss() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = SeenFences::default();
        seen.record(holder(1, 9));
        let spool = AttemptSpool::create(dir.path(), "one", seen).unwrap();
        spool.record_start("stays", None).unwrap();
        let long = "n".repeat(REWRITE_BYTES / 8);
        for _ in 0..20 {
            spool.record_start(&long, None).unwrap();
            spool.record_end(&long);
        }
        let length = std::fs::metadata(dir.path().join(NAME)).unwrap().len();
        assert!(length < 2 * REWRITE_BYTES as u64, "{length}");
        assert_eq!(previous_boot(dir.path()).1, ["stays"]);
        let known = spool.record_start("late", Some(holder(1, 8))).unwrap();
        assert_eq!(known, StartDecision::Refused(Fence::from_number(9)));
    }
}
