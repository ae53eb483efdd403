//! The writer thread, which owns the write connection.
//!
//! Group commit: the thread takes all queued jobs, runs each in a savepoint, commits once, and then sends the results.
//! While one batch is being fsynced, the jobs of the next one are queued. So a single client is not slowed down, and
//! many clients share an fsync.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use berth_core::event::Event;
use berth_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, watch};

use super::checkpoint::Checkpointer;
use super::conn::UndoMode;
use super::{ClockOffset, SqliteConn, StoreClock, connect, keep_wal, now};
use crate::access_generation::AccessGeneration;
use crate::audit::append;
use crate::commit_stats::{CommitHistogram, CommitStats};
use crate::error::StoreError;
use crate::feed::FeedPublisher;
use crate::job::{BegunTx, ReplySender, WriteJob};
use crate::tables::instance;
use crate::tx::TxState;

/// Maximum number of jobs in one commit.
const BATCH_JOBS_MAX: usize = 256;
/// Enough for the pages of one commit. A larger cache would be slower, because SQLite scans the whole cache after a
/// commit that moved b-tree pages. Other pages are cached by the operating system.
const CACHE_KIB: i64 = 8 * 1024;
/// If the WAL file becomes larger than this, for example during a long read, SQLite later shrinks it to this size.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// Maximum number of queued jobs. Further callers wait.
const QUEUE_JOBS_MAX: usize = 1_024;

pub(crate) struct SqliteWriter {
    jobs: Option<mpsc::Sender<WriteJob>>,
    broken: watch::Receiver<Option<StoreError>>,
    commits: Arc<CommitHistogram>,
    access: Arc<AccessGeneration>,
    ahead: ClockOffset,
    thread: Option<JoinHandle<()>>,
}

impl SqliteWriter {
    pub(crate) fn start(
        path: &Path,
        publisher: FeedPublisher,
        ahead: ClockOffset,
    ) -> Result<Self, StoreError> {
        let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.pragma_update(None, "cache_size", -CACHE_KIB).map_err(StoreError::from)?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT).map_err(StoreError::from)?;
        let checkpoints = Checkpointer::start(path, &mut db)?;
        let (jobs, queue) = mpsc::channel(QUEUE_JOBS_MAX);
        let (broke, broken) = watch::channel(None);
        let commits = Arc::new(CommitHistogram::default());
        let (access, clock) = (Arc::new(AccessGeneration::default()), StoreClock::new(ahead.clone()));
        let outward = WriterHandles { publisher, broke, commits: commits.clone(), access: access.clone() };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(&db, clock, queue, checkpoints, &outward))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer: {error}")))?;
        Ok(Self { jobs: Some(jobs), broken, commits, access, ahead, thread: Some(thread) })
    }

    pub(crate) async fn send(&self, job: WriteJob) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(shutdown_error)?;
        jobs.send(job).await.map_err(|_| self.broken.borrow().clone().unwrap_or_else(shutdown_error))
    }

    pub(crate) fn send_blocking(&self, job: WriteJob) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(shutdown_error)?;
        jobs.blocking_send(job).map_err(|_| self.broken.borrow().clone().unwrap_or_else(shutdown_error))
    }

    pub(crate) fn commit_stats(&self) -> CommitStats {
        let waiting = self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity());
        self.commits.snapshot(waiting)
    }

    pub(crate) fn access(&self) -> &Arc<AccessGeneration> {
        &self.access
    }

    pub(crate) fn now(&self) -> Timestamp {
        now(&self.ahead)
    }

    /// Becomes `Some` when the disk has failed. No write succeeds after that.
    pub(crate) fn watch_failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.broken.clone()
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        // Closes the queue and waits until the thread has finished the queued jobs, so that another process can open
        // the file.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn shutdown_error() -> StoreError {
    StoreError::Unavailable("shutting down".into())
}

/// What the writer thread needs from the rest of the store.
struct WriterHandles {
    publisher: FeedPublisher,
    broke: watch::Sender<Option<StoreError>>,
    commits: Arc<CommitHistogram>,
    access: Arc<AccessGeneration>,
}

fn run(
    db: &Connection,
    mut clock: StoreClock,
    mut queue: mpsc::Receiver<WriteJob>,
    mut checkpoints: Checkpointer,
    outward: &WriterHandles,
) {
    let (mut conn, mut state) = (SqliteConn::new(db), TxState::default());
    conn.access = Some(outward.access.clone());
    let mut batch = Vec::with_capacity(BATCH_JOBS_MAX);
    while queue.blocking_recv_many(&mut batch, BATCH_JOBS_MAX) > 0 {
        let (jobs, began) = (batch.len(), Instant::now());
        let committed = commit_batch(&mut conn, &mut state, &mut clock, outward, batch.drain(..));
        outward.commits.record_commit(began.elapsed(), jobs);
        let committed = committed.and_then(|()| checkpoints.after_commit(db));
        if let Err(error) = committed {
            // A failed fsync is never retried, because the pages may already be lost. The next start recovers them from
            // the WAL.
            tracing::error!(%error, "disk failed; refusing further writes");
            let _ = outward.broke.send(Some(error));
            let _ = keep_wal(db);
            // Closes the queue, so that further jobs are refused at once.
            drop(queue);
            return;
        }
    }
    checkpoints.finish(db);
}

/// Runs and commits a batch of jobs. Returns `Err` only if the disk failed; no caller has then been told of a success.
fn commit_batch(
    conn: &mut SqliteConn<'_>,
    state: &mut TxState,
    clock: &mut StoreClock,
    outward: &WriterHandles,
    jobs: impl ExactSizeIterator<Item = WriteJob>,
) -> Result<(), StoreError> {
    let (mut answers, mut events) = (Vec::new(), Vec::new());
    let mut failure = conn.batch("BEGIN IMMEDIATE").err();
    conn.check_other_writers();
    let step = clock.read_step();
    if let Some(step) = step.filter(|_| failure.is_none()) {
        tracing::error!(seconds = step / 1_000_000, "clock stepped forward; postponing all deadlines");
        failure = instance::postpone_deadlines(conn, step).err();
    }
    let count = jobs.len();
    let is_alone = count == 1 && step.is_none();
    for job in jobs {
        if failure.is_some() {
            // The job is dropped, and its caller gets the error that the store is unavailable.
            continue;
        }
        match run_job(conn, state, clock.tick(), job, is_alone) {
            Ok((answer, recorded)) => {
                answers.push(answer);
                events.extend(recorded);
            }
            Err(error) => failure = Some(error),
        }
    }
    failure = failure.or_else(|| append::write_heads(conn, &mut state.heads).err());
    if failure.is_none() {
        failure = conn.batch("COMMIT").err();
    }
    if failure.is_none() && step.is_some() {
        clock.clear_step();
    }
    if failure.is_some() {
        state.heads.clear();
        if !conn.db.is_autocommit() {
            let _ = conn.batch("ROLLBACK");
        }
    }
    outward.access.end_change();
    for answer in answers {
        answer(failure.clone());
    }
    if failure.is_none() {
        outward.publisher.publish(events);
    }
    match failure {
        Some(StoreError::Broken(text)) => Err(StoreError::Broken(text)),
        // A full disk, or a lock held by another process, is temporary. Reads continue to work, and so may the next
        // write.
        _ => Ok(()),
    }
}

/// Runs one job. If it is the only one of its batch, it needs no savepoint: to undo it, the whole transaction is rolled
/// back.
fn run_job(
    conn: &mut SqliteConn<'_>,
    state: &mut TxState,
    now: Timestamp,
    job: WriteJob,
    is_alone: bool,
) -> Result<(ReplySender, Vec<Event>), StoreError> {
    conn.undo = if is_alone { UndoMode::Whole } else { UndoMode::Nothing };
    state.heads.begin_job();
    let ran = job(Ok(BegunTx { conn, state, now }));
    let undo = std::mem::replace(&mut conn.undo, UndoMode::Whole);
    if let Some(broken) = conn.broken.take() {
        (ran.answer)(Some(broken.clone()));
        return Err(broken);
    }
    // After some errors, such as a full disk, SQLite has already rolled back the transaction.
    if conn.db.is_autocommit() {
        (ran.answer)(Some(StoreError::StorageFull));
        return Err(StoreError::StorageFull);
    }
    if !ran.keep {
        state.heads.undo_job();
        match undo {
            UndoMode::Nothing => {}
            UndoMode::Savepoint => conn.batch("ROLLBACK TO job")?,
            UndoMode::Whole => {
                conn.batch("ROLLBACK")?;
                conn.batch("BEGIN IMMEDIATE")?;
            }
        }
    }
    if undo == UndoMode::Savepoint {
        conn.batch("RELEASE job")?;
    }
    Ok((ran.answer, ran.events))
}
