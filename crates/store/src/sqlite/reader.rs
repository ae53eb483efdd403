//! The reader threads. Each one has its own read-only connection, and all of them serve the same queue.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::{ClockOffset, SqliteConn, clock, connect, keep_wal};
use crate::error::StoreError;
use crate::job::ReadJob;
use crate::read_queue::ReadQueue;
use crate::tx::READ_S_MAX;

pub(crate) struct SqliteReaders {
    queue: Arc<ReadQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl SqliteReaders {
    pub(crate) fn start(path: &Path, count: usize, ahead: &ClockOffset) -> Result<Self, StoreError> {
        let mut readers = Self { queue: Arc::default(), threads: Vec::with_capacity(count) };
        for number in 0..count {
            let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            db.pragma_update(None, "query_only", 1).map_err(StoreError::from)?;
            keep_wal(&db)?;
            let (queue, ahead) = (readers.queue.clone(), ahead.clone());
            let thread = std::thread::Builder::new()
                .name(format!("store-reader-{number}"))
                .spawn(move || run(&mut db, &queue, &ahead))
                .map_err(|error| StoreError::Unavailable(format!("cannot start a reader: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(crate) fn send(&self, look: ReadJob) -> Result<(), StoreError> {
        self.queue.send(look)
    }
}

impl Drop for SqliteReaders {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(db: &mut Connection, queue: &ReadQueue, ahead: &ClockOffset) {
    let started = Arc::new(Mutex::new(Instant::now()));
    if let Err(error) = limit_reads(db, &started) {
        tracing::error!(%error, "read timeout cannot be set");
    }
    let mut conn = SqliteConn::new(db);
    while let Some(look) = queue.next() {
        *started.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // Uses one snapshot for the whole read, so that a page and its total are consistent.
        let begun = conn.batch("BEGIN");
        look(Ok((&mut conn, clock::now(ahead))));
        if begun.is_ok() {
            let _ = conn.batch("COMMIT");
        }
    }
}

/// Interrupts a read that takes longer than [`READ_S_MAX`].
fn limit_reads(db: &mut Connection, started: &Arc<Mutex<Instant>>) -> Result<(), StoreError> {
    const CHECK_EVERY_OPERATIONS: i32 = 20_000;
    let started = started.clone();
    let too_long =
        move || started.lock().is_ok_and(|started| started.elapsed() > Duration::from_secs(READ_S_MAX));
    db.progress_handler(CHECK_EVERY_OPERATIONS, Some(too_long)).map_err(StoreError::from)
}
