//! Checkpoints: the write-ahead log is copied into the database, beside the writer.
//!
//! A log that is written all the time is never copied to its end from beside. So this happens in two parts: another thread
//! copies and flushes what there is, and what came meanwhile, until little is left; then the writer copies that, and the log
//! begins anew.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::{connect, leave_log};
use crate::error::StoreError;

/// Pages in the log before it is copied.
const PAGES: i32 = 4_000;

/// Pages that may be left to the writer, about as many as it writes with one commit of many.
const REST_PAGES: i32 = 100;

/// A log that somebody read is tried again when it has grown by this part. Soon: most read for a moment. Not with every
/// commit: a backup reads for long, and each try looks through the log.
const RETRY_PART: i32 = 16;

/// How often what came meanwhile is copied. Should it come faster, more is left to the writer.
const PASSES_MAX: usize = 4;

/// The file of a database whose log is copied. To be closed after all connections: when any handle of a file is closed, the
/// system drops all locks that the process has on it, those of SQLite too.
pub(crate) struct DatabaseFile(File);

impl DatabaseFile {
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let file = File::open(path)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        Ok(Arc::new(Self(file)))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.sync_data().map_err(|error| StoreError::Broken(format!("cannot flush the database: {error}")))
    }
}

pub(super) struct Checkpoints {
    /// In the log, as of the last commit.
    pages: Arc<AtomicI32>,
    ask: Option<SyncSender<()>>,
    /// The other thread is at it.
    is_copying: Arc<AtomicBool>,
    /// It left much, because somebody still reads the log.
    is_stuck: Arc<AtomicBool>,
    /// It was asked since the log began.
    was_asked: bool,
    /// Somebody read the log, so that it could not begin anew. Below so many pages it is not tried again.
    not_before: i32,
    /// The disk failed under the other thread. Nothing more may be copied: what SQLite takes for copied is not.
    failed: Arc<OnceLock<StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// For the database at `path`, which `writer` writes.
    pub(super) fn start(
        path: &Path,
        file: Arc<DatabaseFile>,
        writer: &mut Connection,
    ) -> Result<Self, StoreError> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        leave_log(&db)?;
        let pages = Arc::new(AtomicI32::new(0));
        let seen = pages.clone();
        let note_pages = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(note_pages)).map_err(StoreError::from)?;
        let (ask, asked) = sync_channel(1);
        let [is_copying, is_stuck] = [false; 2].map(|no| Arc::new(AtomicBool::new(no)));
        let (under_way, stuck, in_log) = (is_copying.clone(), is_stuck.clone(), pages.clone());
        let failed = Arc::new(OnceLock::new());
        let failure = failed.clone();
        let copy = move || {
            while asked.recv().is_ok() {
                match copy_and_flush(&db, &file, &in_log) {
                    Ok(is_done) => stuck.store(!is_done, Ordering::Relaxed),
                    Err(error) => drop(failure.set(error)),
                }
                under_way.store(false, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Unavailable(format!("cannot start checkpoints: {error}")))?;
        let (ask, thread) = (Some(ask), Some(thread));
        Ok(Self { pages, ask, is_copying, is_stuck, was_asked: false, not_before: PAGES, failed, thread })
    }

    /// Between two commits. `Err` only when the disk failed.
    pub(super) fn see_to(&mut self, writer: &Connection) -> Result<(), StoreError> {
        if self.is_copying.load(Ordering::Acquire) {
            return Ok(());
        }
        // In this order: what failed is known once the other thread is done.
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < PAGES {
            // The log has begun anew.
            (self.was_asked, self.not_before) = (false, PAGES);
        } else if pages < self.not_before {
            return Ok(());
        } else if std::mem::take(&mut self.was_asked) {
            // With the next commit the log begins anew, unless somebody reads it.
            self.not_before = pages.saturating_add(pages / RETRY_PART);
            if !self.is_stuck.load(Ordering::Relaxed) {
                checkpoint(writer, "PASSIVE")?;
                self.pages.store(0, Ordering::Relaxed);
            }
        } else if let Some(ask) = &self.ask {
            self.was_asked = true;
            self.is_copying.store(true, Ordering::Release);
            if ask.try_send(()).is_err() {
                self.is_copying.store(false, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Nothing more is written: the log is copied and emptied.
    pub(super) fn finish(mut self, writer: &Connection) {
        self.stop();
        let copied =
            self.failed.get().map_or_else(|| checkpoint(writer, "TRUNCATE"), |error| Err(error.clone()));
        if let Err(error) = copied {
            // Closing would copy it once more, take what was lost for copied, and remove the log.
            tracing::error!(%error, "the log is left for the next start");
            let _ = leave_log(writer);
        }
    }

    fn stop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the writer may copy the rest.
fn copy_and_flush(db: &Connection, file: &DatabaseFile, in_log: &AtomicI32) -> Result<bool, StoreError> {
    let mut before = None;
    for _ in 0..PASSES_MAX {
        let copied = checkpoint(db, "PASSIVE")?;
        // SQLite would leave it to the writer, and commits would wait for it.
        file.flush()?;
        if copied.is_none_or(|copied| in_log.load(Ordering::Relaxed) - copied <= REST_PAGES) {
            break;
        }
        // Who still reads the log keeps what came later from being copied.
        if std::mem::replace(&mut before, copied) == copied {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says how many pages of the log are copied now; nothing if it has to be tried again.
fn checkpoint(db: &Connection, mode: &str) -> Result<Option<i32>, StoreError> {
    let done = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(2));
    match done.map_err(StoreError::from) {
        Ok(copied) => Ok(Some(copied)),
        Err(StoreError::Broken(text)) => Err(StoreError::Broken(text)),
        Err(error) => {
            tracing::warn!(%error, "checkpoint failed; it is tried again later");
            Ok(None)
        }
    }
}
