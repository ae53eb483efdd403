//! Checkpoints: the write-ahead log is copied into the database, beside the writer.
//!
//! A log that is written all the time is never copied to its end from beside. So this happens in two parts: another thread
//! copies what there is, while commits go on; then the writer copies the little that came since, and the log begins anew.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::connect;
use crate::error::StoreError;

/// Pages in the log before it is copied.
const PAGES: i32 = 4_000;

pub(super) struct Checkpoints {
    /// In the log, as of the last commit.
    pages: Arc<AtomicI32>,
    ask: Option<SyncSender<()>>,
    /// The other thread is at it.
    is_copying: Arc<AtomicBool>,
    /// It was asked since the log began.
    was_asked: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// For the database at `path`, which `writer` writes.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, StoreError> {
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let pages = Arc::new(AtomicI32::new(0));
        let seen = pages.clone();
        let note_pages = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(note_pages)).map_err(StoreError::from)?;
        let (ask, asked) = sync_channel(1);
        let is_copying = Arc::new(AtomicBool::new(false));
        let under_way = is_copying.clone();
        let copy = move || {
            while asked.recv().is_ok() {
                checkpoint(&db, "PASSIVE");
                under_way.store(false, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Unavailable(format!("cannot start checkpoints: {error}")))?;
        Ok(Self { pages, ask: Some(ask), is_copying, was_asked: false, thread: Some(thread) })
    }

    /// Between two commits.
    pub(super) fn see_to(&mut self, writer: &Connection) {
        if self.is_copying.load(Ordering::Acquire) {
            return;
        }
        if self.pages.load(Ordering::Relaxed) < PAGES {
            // Where no commit came between, the log has begun anew by itself.
            self.was_asked = false;
        } else if std::mem::take(&mut self.was_asked) {
            checkpoint(writer, "PASSIVE");
            self.pages.store(0, Ordering::Relaxed);
        } else if let Some(ask) = &self.ask {
            self.was_asked = true;
            self.is_copying.store(true, Ordering::Release);
            if ask.try_send(()).is_err() {
                self.is_copying.store(false, Ordering::Release);
            }
        }
    }

    /// Nothing more is written: the log is copied and emptied.
    pub(super) fn finish(self, writer: &Connection) {
        drop(self);
        checkpoint(writer, "TRUNCATE");
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn checkpoint(db: &Connection, mode: &str) {
    let done = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
    if let Err(error) = done {
        tracing::warn!(%error, "checkpoint failed; it is tried again later");
    }
}
