//! The writer threads, each with its own connection. All writes of an organization go through the same thread.
//!
//! Group commit: a thread collects the queued jobs of an organization, takes the organization's advisory lock, runs
//! each job in a savepoint, commits once, and then sends the results. While it holds the lock, no other writer in any
//! process can change the organization, so the data that a domain rule has read stays valid until the commit. A job
//! that concerns no organization, or several, locks the whole installation.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Instant;

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use tokio::sync::{mpsc, watch};

use super::address::{ConnectionPurpose, PostgresAddress};
use super::conn::{PgConn, parse_number};
use super::lock_scope::{LockScope, begin_text};
use crate::audit::{AuditHead, append};
use crate::commit_stats::{CommitHistogram, CommitStats};
use crate::error::StoreError;
use crate::job::{BegunTx, ReplySender, WriteJob};
use crate::migrations::outdated_message;
use crate::tx::TxState;

/// Number of writer threads, not counting the one for leases. Each opens its connection when it gets its first job.
const WRITERS: usize = 8;
/// Maximum number of jobs in one commit. PostgreSQL becomes slow if a transaction has more than 64 subtransactions.
const BATCH_JOBS_MAX: usize = 32;
/// Maximum number of queued jobs per thread. Further callers wait.
const QUEUE_JOBS_MAX: usize = 1_024;

pub(super) struct PostgresWriters {
    queues: Vec<mpsc::Sender<(LockScope, WriteJob)>>,
    threads: Vec<JoinHandle<()>>,
    commits: Arc<CommitHistogram>,
    /// Becomes `Some` when a newer server has made the schema unusable for this program.
    outdated: watch::Sender<Option<StoreError>>,
}

impl PostgresWriters {
    pub(super) fn start(
        address: &PostgresAddress,
        nudges: &SyncSender<OrgId>,
        schema_version: i64,
    ) -> Result<Self, StoreError> {
        let mut writers = Self {
            queues: Vec::new(),
            threads: Vec::new(),
            commits: Arc::default(),
            outdated: watch::Sender::new(None),
        };
        let last = Arc::new(AtomicI64::new(0));
        for number in 0..=WRITERS {
            let (jobs, queue) = mpsc::channel(QUEUE_JOBS_MAX);
            let writer = PostgresWriter {
                address: address.clone(),
                conn: None,
                state: TxState::default(),
                last: last.clone(),
                nudges: nudges.clone(),
                commits: writers.commits.clone(),
                schema_version,
                outdated: writers.outdated.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("store-writer-{number}"))
                .spawn(move || writer.run(queue))
                .map_err(|error| StoreError::Unavailable(format!("cannot start a writer: {error}")))?;
            writers.queues.push(jobs);
            writers.threads.push(thread);
        }
        Ok(writers)
    }

    pub(super) async fn send(&self, place: LockScope, job: WriteJob) -> Result<(), StoreError> {
        self.queue_of(place).send((place, job)).await.map_err(|_| shutdown_error())
    }

    pub(super) fn send_blocking(&self, place: LockScope, job: WriteJob) -> Result<(), StoreError> {
        self.queue_of(place).blocking_send((place, job)).map_err(|_| shutdown_error())
    }

    pub(super) fn commit_stats(&self) -> CommitStats {
        let waiting = self.queues.iter().map(|queue| queue.max_capacity() - queue.capacity()).sum();
        self.commits.snapshot(waiting)
    }

    pub(super) fn watch_outdated(&self) -> watch::Receiver<Option<StoreError>> {
        self.outdated.subscribe()
    }

    fn queue_of(&self, place: LockScope) -> &mpsc::Sender<(LockScope, WriteJob)> {
        // The last queue is for leases only.
        let at = match place {
            LockScope::Leases => WRITERS,
            LockScope::Installation | LockScope::Organization(_) => {
                let mut hasher = DefaultHasher::new();
                place.hash(&mut hasher);
                usize::try_from(hasher.finish() % WRITERS as u64).unwrap_or(0)
            }
        };
        &self.queues[at]
    }
}

impl Drop for PostgresWriters {
    fn drop(&mut self) {
        // Closes the queues; the threads finish the jobs that are already queued.
        self.queues.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn shutdown_error() -> StoreError {
    StoreError::Unavailable("shutting down".into())
}

struct PostgresWriter {
    address: PostgresAddress,
    /// `None` before the first job and after the connection was lost.
    conn: Option<PgConn>,
    state: TxState,
    /// The latest time that was given to any job in this process.
    last: Arc<AtomicI64>,
    nudges: SyncSender<OrgId>,
    commits: Arc<CommitHistogram>,
    schema_version: i64,
    outdated: watch::Sender<Option<StoreError>>,
}

impl PostgresWriter {
    fn run(mut self, mut queue: mpsc::Receiver<(LockScope, WriteJob)>) {
        let mut batch = Vec::with_capacity(BATCH_JOBS_MAX);
        while queue.blocking_recv_many(&mut batch, BATCH_JOBS_MAX) > 0 {
            for (place, jobs) in group_by_scope(batch.drain(..)) {
                let (count, began) = (jobs.len(), Instant::now());
                self.commit(place, jobs);
                self.commits.record_commit(began.elapsed(), count);
            }
        }
    }

    fn commit(&mut self, place: LockScope, jobs: Vec<WriteJob>) {
        let began = self.begin(place);
        let (mut conn, now) = match began {
            Ok(began) => began,
            Err(error) => {
                for job in jobs {
                    (job(Err(error.clone())).answer)(None);
                }
                return;
            }
        };
        let mut told = Vec::new();
        let (done, outcome) = run_all(&mut conn, &mut self.state, jobs, || tick(&self.last, now), &mut told);
        // If every job was refused, there is nothing to commit.
        if outcome.is_ok() && !done.iter().any(|it| it.is_kept) {
            self.conn = conn.batch("ROLLBACK").is_ok().then_some(conn);
            for it in done {
                (it.answer)(it.failure);
            }
            return;
        }
        let outcome = outcome.and_then(|()| {
            append::write_heads(&mut conn, &mut self.state.heads)?;
            conn.commit()
        });
        let is_clean = outcome.is_ok() || conn.batch("ROLLBACK").is_ok();
        // If the outcome of the commit is unknown, the connection is not used again.
        let is_known = !matches!(outcome, Err(StoreError::Unknown(_)));
        self.conn = Some(conn).filter(|conn| is_clean && is_known && !conn.is_closed());
        let failure = outcome.err();
        for it in done {
            (it.answer)(failure.clone().or(it.failure));
        }
        if failure.is_none() {
            for org in told {
                // Losing a notification is harmless, because servers also poll.
                let _ = self.nudges.try_send(org);
            }
        }
    }

    /// Begins a transaction: takes the lock, then reads the time and the epoch. Reconnects if the connection was lost
    /// while it was idle.
    fn begin(&mut self, place: LockScope) -> Result<(PgConn, i64), StoreError> {
        let text = begin_text(place);
        if let Some(mut conn) = self.conn.take() {
            conn.failed = None;
            match conn.query_texts(&text) {
                Ok(begun) => return self.enter_transaction(conn, place, &begun),
                // If the ROLLBACK succeeds, the connection works and the wait for the lock has timed out. Otherwise the
                // connection was lost while it was idle.
                Err(error) => {
                    if conn.batch("ROLLBACK").is_ok() {
                        self.conn = Some(conn);
                        return Err(error);
                    }
                }
            }
        }
        let mut conn = PgConn::open(&self.address, ConnectionPurpose::Write)?;
        conn.check_timeline()?;
        let begun = conn.query_texts(&text)?;
        self.enter_transaction(conn, place, &begun)
    }

    /// Refuses to write if a newer server has changed the schema in a way that this program does not know.
    fn enter_transaction(
        &mut self,
        mut conn: PgConn,
        place: LockScope,
        begun: &[Option<String>],
    ) -> Result<(PgConn, i64), StoreError> {
        let number = |at| parse_number(begun.get(at));
        let (now, epoch, min_version) = (number(0)?, number(1)?, number(2)?);
        if min_version > self.schema_version {
            let error = StoreError::Outdated(outdated_message(min_version, self.schema_version));
            let _ = conn.batch("ROLLBACK");
            if self.outdated.send_replace(Some(error.clone())).is_none() {
                tracing::error!(%error, "the schema is too new for this server; stopping");
            }
            return Err(error);
        }
        self.state = TxState { epoch: Some(epoch), ..TxState::default() };
        if let LockScope::Organization(org) = place {
            let head = match begun.get(4).cloned().flatten() {
                Some(hash) => AuditHead { sequence: number(3)?, hash },
                None => AuditHead::start(),
            };
            self.state.heads.insert_stored(org, head);
        }
        Ok((conn, now))
    }
}

/// Returns a time that is later than all times given to jobs in this process so far.
fn tick(last: &AtomicI64, now: i64) -> Timestamp {
    let before = last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(now.max(last + 1)));
    Timestamp::from_micros(now.max(before.unwrap_or(now) + 1))
}

/// Groups jobs by what they lock. The groups are ordered by their first jobs.
fn group_by_scope(jobs: impl Iterator<Item = (LockScope, WriteJob)>) -> Vec<(LockScope, Vec<WriteJob>)> {
    let mut sorted: Vec<(LockScope, Vec<WriteJob>)> = Vec::new();
    for (place, job) in jobs {
        match sorted.iter_mut().find(|(known, _)| *known == place) {
            Some((_, jobs)) => jobs.push(job),
            None => sorted.push((place, vec![job])),
        }
    }
    sorted
}

/// Runs the jobs. Returns `Err` if nothing can be committed; the jobs that were not run have then received the error.
fn run_all(
    conn: &mut PgConn,
    state: &mut TxState,
    jobs: Vec<WriteJob>,
    now: impl Fn() -> Timestamp,
    told: &mut Vec<OrgId>,
) -> (Vec<FinishedJob>, Result<(), StoreError>) {
    let mut done = Vec::with_capacity(jobs.len());
    let mut outcome = Ok(());
    // A single job needs no savepoint: if it is refused, the whole transaction is rolled back.
    let mut savepoint = if jobs.len() == 1 { JobSavepoint::Needless } else { JobSavepoint::None };
    for job in jobs {
        if let Err(error) = &outcome {
            let error: &StoreError = error;
            (job(Err(error.clone())).answer)(None);
            continue;
        }
        match run_one(conn, state, job, now(), savepoint, told) {
            Ok((ran, next)) => {
                savepoint = next;
                done.push(ran);
            }
            Err(error) => outcome = Err(error),
        }
    }
    (done, outcome)
}

/// A job that has run. Even a refusal is sent only after the commit, because it may be based on what another job of the
/// same commit wrote.
struct FinishedJob {
    answer: ReplySender,
    is_kept: bool,
    /// The job's own error, as opposed to an error of the commit.
    failure: Option<StoreError>,
}

/// The state of the savepoint. To save round trips, a savepoint is created together with the first statement of its job,
/// which also releases the previous one; the commit releases the last one.
#[derive(Clone, Copy)]
enum JobSavepoint {
    Needless,
    None,
    OfKept,
    OfUndone,
}

impl JobSavepoint {
    fn begin(self, conn: &mut PgConn) {
        match self {
            JobSavepoint::Needless | JobSavepoint::OfUndone => {}
            JobSavepoint::None => conn.set_savepoint("SAVEPOINT job"),
            JobSavepoint::OfKept => conn.set_savepoint("RELEASE job; SAVEPOINT job"),
        }
    }

    fn undo(self, conn: &mut PgConn) -> Result<(), StoreError> {
        match self {
            JobSavepoint::Needless => Ok(()),
            JobSavepoint::None | JobSavepoint::OfKept | JobSavepoint::OfUndone => {
                conn.batch("ROLLBACK TO job")
            }
        }
    }

    const fn after(self, is_kept: bool) -> Self {
        match (self, is_kept) {
            (JobSavepoint::Needless, _) => JobSavepoint::Needless,
            (_, true) => JobSavepoint::OfKept,
            (_, false) => JobSavepoint::OfUndone,
        }
    }
}

/// Returns the finished job and the state of the savepoint after it. `Err` if nothing can be committed.
fn run_one(
    conn: &mut PgConn,
    state: &mut TxState,
    job: WriteJob,
    now: Timestamp,
    savepoint: JobSavepoint,
    told: &mut Vec<OrgId>,
) -> Result<(FinishedJob, JobSavepoint), StoreError> {
    state.heads.begin_job();
    savepoint.begin(conn);
    let ran = job(Ok(BegunTx { conn, state, now }));
    if ran.keep {
        // An error is also in `conn.failed`.
        let _ = match savepoint {
            JobSavepoint::Needless => {
                append::write_heads(conn, &mut state.heads).and_then(|()| conn.send_writes())
            }
            JobSavepoint::None | JobSavepoint::OfKept | JobSavepoint::OfUndone => conn.send_writes(),
        };
    }
    conn.drop_writes();
    let is_untouched = conn.drop_savepoint();
    let failed = conn.failed.take();
    if ran.keep && failed.is_none() {
        told.extend(ran.events.iter().map(|event| event.org));
        let next = if is_untouched { savepoint } else { savepoint.after(true) };
        return Ok((FinishedJob { answer: ran.answer, is_kept: true, failure: None }, next));
    }
    state.heads.undo_job();
    let undone = if is_untouched { Ok(()) } else { savepoint.undo(conn) };
    conn.failed = None;
    // If a statement failed but the job ignored that, the job is undone and its caller gets the error.
    let failure = failed.filter(|_| ran.keep);
    match undone {
        Ok(()) => {
            let next = if is_untouched { savepoint } else { savepoint.after(false) };
            Ok((FinishedJob { answer: ran.answer, is_kept: false, failure }, next))
        }
        Err(error) => {
            (ran.answer)(Some(error.clone()));
            Err(error)
        }
    }
}
