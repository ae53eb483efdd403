//! WAL checkpoints in the background.
//!
//! A thread with its own connection runs PASSIVE checkpoints, which do not block commits. The writer itself truncates
//! the WAL (TRUNCATE) when it is idle or when the WAL has grown too large.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_WAIT, connect, keep_wal};
use crate::error::StoreError;

/// Number of pages in the WAL at which a checkpoint runs. If readers prevent it, the next attempt is made this many
/// pages later.
const CHECKPOINT_PAGES: i32 = 4_000;
/// Above this size (64 MiB) the writer truncates the WAL even if it is not idle.
const WAL_PAGES_MAX: i32 = 16_000;

pub(super) struct Checkpointer {
    /// Number of pages in the WAL after the last commit.
    pages: Arc<AtomicI32>,
    request: Option<SyncSender<()>>,
    /// WAL size in pages at which the next passive checkpoint or the next truncation is attempted.
    passive_at: i32,
    truncate_at: i32,
    /// The error of a failed background checkpoint. No further checkpoint may run: the pages that it wrote may be lost,
    /// and only the WAL still has them.
    failed: Arc<OnceLock<StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the checkpoint thread for the database at `path`. `writer` is the write connection.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, StoreError> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        keep_wal(&db)?;
        let (pages, failed) = (Arc::new(AtomicI32::new(0)), Arc::new(OnceLock::new()));
        let seen = pages.clone();
        let note_pages = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(note_pages)).map_err(StoreError::from)?;
        let (request, requests) = sync_channel(1);
        let failure = failed.clone();
        let copy = move || {
            while requests.recv().is_ok() {
                if let Err(error) = checkpoint(&db, "PASSIVE") {
                    let _ = failure.set(error);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Unavailable(format!("cannot start checkpoints: {error}")))?;
        let (passive_at, truncate_at) = (CHECKPOINT_PAGES, CHECKPOINT_PAGES);
        Ok(Self { pages, request: Some(request), passive_at, truncate_at, failed, thread: Some(thread) })
    }

    /// Called between two transactions of the writer. Returns `Err` only if the disk failed.
    pub(super) fn after_commit(&mut self, writer: &Connection, is_idle: bool) -> Result<(), StoreError> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_PAGES {
            (self.passive_at, self.truncate_at) = (CHECKPOINT_PAGES, CHECKPOINT_PAGES);
        } else if pages >= self.passive_at {
            self.passive_at = pages.saturating_add(CHECKPOINT_PAGES);
            let _ = self.request.as_ref().map(|request| request.try_send(()));
        } else if pages >= if is_idle { self.truncate_at } else { self.truncate_at.max(WAL_PAGES_MAX) } {
            self.truncate_at = pages.saturating_add(CHECKPOINT_PAGES);
            // Truncates only if that is possible at once, without waiting for readers or the background checkpoint.
            writer.busy_timeout(Duration::ZERO).map_err(StoreError::from)?;
            let truncated = checkpoint(writer, "TRUNCATE");
            writer.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
            if truncated? {
                self.pages.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Truncates the WAL when the store is closed.
    pub(super) fn finish(mut self, writer: &Connection) {
        self.stop();
        let copied =
            self.failed.get().map_or_else(|| checkpoint(writer, "TRUNCATE"), |error| Err(error.clone()));
        if let Err(error) = copied {
            // Prevents SQLite from running another checkpoint and deleting the WAL when the last connection is closed.
            tracing::error!(%error, "checkpoint failed; keeping the WAL for the next start");
            let _ = keep_wal(writer);
        }
    }

    fn stop(&mut self) {
        self.request = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a checkpoint. Returns whether it was complete: readers or another checkpoint can prevent that. SQLite syncs the
/// database file before it restarts the WAL. Returns `Err` only if the disk failed.
fn checkpoint(db: &Connection, mode: &str) -> Result<bool, StoreError> {
    let busy = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(0));
    match busy.map_err(StoreError::from) {
        Ok(busy) => Ok(busy == 0),
        Err(StoreError::Broken(text)) => Err(StoreError::Broken(text)),
        Err(error) => {
            tracing::warn!(%error, "checkpoint failed; retrying later");
            Ok(false)
        }
    }
}
