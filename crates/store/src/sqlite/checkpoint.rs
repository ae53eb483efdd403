//! Background WAL checkpointing.
//!
//! A thread with its own connection runs PASSIVE checkpoints, which do not block commits. The writer truncates the WAL
//! (TRUNCATE) when it is idle, or when the WAL has grown too large.

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

/// Pages in the WAL before a checkpoint, and before the next attempt after one that readers prevented.
const CHECKPOINT_PAGES: i32 = 4_000;
/// Above this (64 MiB) the writer truncates even if it is not idle.
const WAL_PAGES_MAX: i32 = 16_000;

pub(super) struct Checkpointer {
    /// Pages in the WAL as of the last commit.
    pages: Arc<AtomicI32>,
    request: Option<SyncSender<()>>,
    /// The next passive checkpoint, and the next attempt to truncate, in pages.
    passive_at: i32,
    truncate_at: i32,
    /// A background checkpoint that failed. No other may run: the pages it wrote may be lost, and only the WAL has them.
    failed: Arc<OnceLock<StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread for the database at `path`; `writer` is the write connection.
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

    /// Called between two transactions of the writer. `Err` only if the disk failed.
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
            // Does not wait for readers or the background checkpoint.
            writer.busy_timeout(Duration::ZERO).map_err(StoreError::from)?;
            let truncated = checkpoint(writer, "TRUNCATE");
            writer.busy_timeout(BUSY_WAIT).map_err(StoreError::from)?;
            if truncated? {
                self.pages.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Truncates the WAL after the last write.
    pub(super) fn finish(mut self, writer: &Connection) {
        self.stop();
        let copied =
            self.failed.get().map_or_else(|| checkpoint(writer, "TRUNCATE"), |error| Err(error.clone()));
        if let Err(error) = copied {
            // Closing the last connection would run another checkpoint and delete the WAL.
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

/// Returns whether the checkpoint is complete; readers or another checkpoint may prevent it. SQLite syncs the database
/// before it restarts the WAL. `Err` only if the disk failed.
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
