//! WAL checkpoints in the background.
//!
//! A thread with its own connection copies the WAL into the database with PASSIVE checkpoints, which do not block
//! commits. The writer then makes SQLite reuse the WAL from its beginning (RESTART), which is quick because few pages
//! are left to copy. The WAL file keeps its size, so that later commits need not allocate blocks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_WAIT, connect, keep_wal};
use crate::error::StoreError;

/// A checkpoint runs when the WAL has this many pages. If readers prevent the restart of the WAL, the next attempt is
/// made after as many more pages.
const CHECKPOINT_PAGES: i32 = 4_000;

pub(super) struct Checkpointer {
    /// Number of pages in the WAL after the last commit.
    pages: Arc<AtomicI32>,
    /// Number of pages in the WAL at which the next checkpoint is requested.
    next_at: i32,
    request: Option<SyncSender<()>>,
    /// Whether the thread has copied the WAL since the last restart.
    is_copied: Arc<AtomicBool>,
    /// The error of a failed background checkpoint. The pages that it wrote may be lost and exist only in the WAL, so
    /// no other checkpoint may run.
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
        let is_copied = Arc::new(AtomicBool::new(false));
        let (failure, copied) = (failed.clone(), is_copied.clone());
        let copy = move || {
            while requests.recv().is_ok() {
                // The second checkpoint copies pages that were committed during the first.
                match checkpoint(&db, "PASSIVE").and_then(|_| checkpoint(&db, "PASSIVE")) {
                    Ok(_) => copied.store(true, Ordering::Release),
                    Err(error) => drop(failure.set(error)),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Unavailable(format!("cannot start checkpoints: {error}")))?;
        Ok(Self {
            pages,
            next_at: CHECKPOINT_PAGES,
            request: Some(request),
            is_copied,
            failed,
            thread: Some(thread),
        })
    }

    /// Called by the writer between two transactions. Returns `Err` only if the disk failed.
    pub(super) fn after_commit(&mut self, writer: &Connection) -> Result<(), StoreError> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let pages = self.pages.load(Ordering::Relaxed);
        if self.is_copied.swap(false, Ordering::Acquire) {
            // Does not wait until readers have finished.
            writer.busy_timeout(Duration::ZERO).map_err(StoreError::from)?;
            let restarted = checkpoint(writer, "RESTART");
            writer.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
            if restarted? {
                self.pages.store(0, Ordering::Relaxed);
            }
        } else if pages < CHECKPOINT_PAGES {
            self.next_at = CHECKPOINT_PAGES;
        } else if pages >= self.next_at {
            self.next_at = pages.saturating_add(CHECKPOINT_PAGES);
            let _ = self.request.as_ref().map(|request| request.try_send(()));
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

/// Runs a checkpoint. Returns false if readers or another checkpoint prevented it from completing. SQLite syncs the
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
