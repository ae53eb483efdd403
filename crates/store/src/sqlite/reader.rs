//! The readers: a few threads, each with a read-only connection, that share one queue.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::{Ahead, SqliteConn, clock, connect};
use crate::error::StoreError;
use crate::sql::Conn;

/// A read that takes longer is ended.
pub(super) const READ_S_MAX: u64 = 5;
/// Reads waiting for a thread; one more is refused.
const QUEUE_READS_MAX: usize = 4_096;

pub(crate) type Read = Box<dyn FnOnce(&mut dyn Conn, Timestamp) + Send>;

pub(crate) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    reads: VecDeque<Read>,
    closed: bool,
}

impl Readers {
    pub(crate) fn start(path: &Path, count: usize, ahead: &Ahead) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new() });
        let mut readers = Self { shared, threads: Vec::with_capacity(count) };
        for number in 0..count {
            let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            db.pragma_update(None, "query_only", 1).map_err(StoreError::from)?;
            let (shared, ahead) = (readers.shared.clone(), ahead.clone());
            let thread = std::thread::Builder::new()
                .name(format!("store-reader-{number}"))
                .spawn(move || run(&mut db, &shared, &ahead))
                .map_err(|error| StoreError::Unavailable(format!("cannot start a reader: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(crate) fn send(&self, read: Read) -> Result<(), StoreError> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.reads.len() >= QUEUE_READS_MAX {
            return Err(StoreError::Unavailable("too many reads are waiting".into()));
        }
        queue.reads.push_back(read);
        drop(queue);
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(db: &mut Connection, shared: &Shared, ahead: &Ahead) {
    let started = Arc::new(Mutex::new(Instant::now()));
    if let Err(error) = limit_reads(db, &started) {
        tracing::error!(%error, "reads have no time limit");
    }
    let mut conn = SqliteConn::on(db);
    while let Some(read) = next(shared) {
        *started.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // One snapshot for the whole read, so that a page and its total agree.
        let begun = conn.batch("BEGIN");
        read(&mut conn, clock::now(ahead));
        if begun.is_ok() {
            let _ = conn.batch("COMMIT");
        }
    }
}

fn next(shared: &Shared) -> Option<Read> {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(read) = queue.reads.pop_front() {
            return Some(read);
        }
        if queue.closed {
            return None;
        }
        queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Ends reads that run too long.
fn limit_reads(db: &mut Connection, started: &Arc<Mutex<Instant>>) -> Result<(), StoreError> {
    const CHECK_EVERY_OPERATIONS: i32 = 20_000;
    let started = started.clone();
    let too_long =
        move || started.lock().is_ok_and(|started| started.elapsed() > Duration::from_secs(READ_S_MAX));
    db.progress_handler(CHECK_EVERY_OPERATIONS, Some(too_long)).map_err(StoreError::from)
}
