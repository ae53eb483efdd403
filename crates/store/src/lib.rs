//! Durable storage on SQLite or PostgreSQL.
//!
//! Async code sends a closure to a thread that owns a database connection, and awaits the result. No lock is held
//! across an `.await`, and a commit completes even if the request that caused it is dropped.

mod access_generation;
pub mod admin;
pub mod audit;
pub mod commit_stats;
pub mod data_dir;
mod entropy;
pub mod error;
pub mod feed;
pub mod idempotency;
pub mod incarnation;
mod job;
pub mod migrations;
pub mod outbox;
pub mod pagination;
mod postgres;
mod read_ahead;
mod read_queue;
pub mod sql;
mod sqlite;
pub mod tables;
mod tx;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use berth_core::environment::limits::RUNNER_LOST_S;
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use data_dir::DataDir;
use migrations::{SCHEMA, Schema};
use tokio::sync::{oneshot, watch};

use access_generation::AccessGeneration;
use commit_stats::CommitStats;
use feed::{EventFeed, EventFollower};

pub use error::{OpenError, StoreError};
pub use sql::value::{SqlRow, SqlValue, text};
pub use tx::{ReadTx, StoreRead, Tx, TxContext};

use job::{ReadJob, WriteJob};

pub struct Store {
    // Must be dropped before the feed, because it publishes to the feed.
    driver: StoreDriver,
    feed: EventFeed,
    /// The current epoch, which is part of every new fence. PostgreSQL connections track the epoch themselves.
    epoch: Arc<AtomicI64>,
    lost_s: i64,
}

/// Settings that are the same for every transaction.
#[derive(Debug, Clone)]
pub(crate) struct TxConfig {
    /// Read when the transaction begins, because the epoch may be raised while the job is queued.
    pub(crate) epoch: Arc<AtomicI64>,
    pub(crate) lost_s: i64,
    /// `None` if other servers write to the same database, in which case permissions cannot be cached.
    pub(crate) access: Option<Arc<AccessGeneration>>,
}

enum StoreDriver {
    // Readers must be dropped before the writer, which truncates the WAL when it stops.
    Sqlite { readers: sqlite::SqliteReaders, writer: sqlite::SqliteWriter },
    Postgres(postgres::PostgresDriver),
}

impl Store {
    /// Opens the SQLite database at `path`. Creates or migrates it if necessary.
    pub fn open_sqlite(path: &Path) -> Result<Self, OpenError> {
        Self::open_sqlite_with(path, SCHEMA)
    }

    /// Like [`Store::open_sqlite`], as a program with this schema.
    pub fn open_sqlite_with(path: &Path, schema: Schema) -> Result<Self, OpenError> {
        sqlite::check_version()?;
        let ahead = sqlite::ClockOffset::default();
        let epoch = Arc::new(AtomicI64::new(sqlite::migrate(path, &schema, sqlite::now(&ahead))?));
        let (feed, publisher) = EventFeed::start()?;
        let writer = sqlite::SqliteWriter::start(path, publisher, ahead.clone())?;
        let readers = sqlite::SqliteReaders::start(path, reader_count(), &ahead)?;
        Ok(Self { driver: StoreDriver::Sqlite { readers, writer }, feed, epoch, lost_s: RUNNER_LOST_S })
    }

    /// Opens the SQLite database of a data directory. Refuses a file that is a copy of another database.
    pub fn open_in(dir: &DataDir) -> Result<Self, OpenError> {
        sqlite::check_version()?;
        // Checks the incarnation before migrating, so that a refused database stays unchanged.
        incarnation::check_database(dir)?;
        Self::open_sqlite(&dir.database())
    }

    /// Called when a server starts. From now on, older copies of the database are refused.
    pub fn begin_in(&self, dir: &DataDir) -> Result<(), OpenError> {
        incarnation::renew_incarnation(self, dir)
    }

    /// Opens the PostgreSQL database at `url` and migrates it if necessary. Several servers may share it.
    pub fn open_postgres(url: &str) -> Result<Self, OpenError> {
        Self::open_postgres_with(url, SCHEMA)
    }

    /// Like [`Store::open_postgres`], as a program with this schema.
    pub fn open_postgres_with(url: &str, schema: Schema) -> Result<Self, OpenError> {
        let (feed, publisher) = EventFeed::start()?;
        let (database, epoch) = postgres::PostgresDriver::open(url, schema, reader_count(), publisher)?;
        let epoch = Arc::new(AtomicI64::new(epoch));
        Ok(Self { driver: StoreDriver::Postgres(database), feed, epoch, lost_s: RUNNER_LOST_S })
    }

    /// The current epoch, which forms the upper bits of every new fence.
    pub fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Raises the epoch when issued fences may have been lost, for example after a restore. `given` is an epoch from
    /// another source, such as the incarnation file; the new epoch is higher. No server may be running.
    pub fn raise_epoch(&mut self, given: Option<i64>) -> Result<(), StoreError> {
        self.transact_blocking(TxContext::system(None), move |tx| tables::instance::raise_epoch(tx, given))
    }

    /// Whether other servers may write to the same database.
    pub fn is_shared(&self) -> bool {
        matches!(self.driver, StoreDriver::Postgres(_))
    }

    /// Runs `work` in a transaction. Returns after the commit is durable.
    pub async fn transact<T, E>(
        &self,
        context: TxContext,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let org = context.org;
        let (job, answer) = job::write_job(context, self.tx_config(), work);
        self.send(org, job).await?;
        answer.await.unwrap_or_else(|_| Err(stopped_error().into()))
    }

    /// Like [`Store::transact`], but only for leases. On PostgreSQL, it waits for no transactions except those of other
    /// leases.
    pub async fn transact_lease<T, E>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (job, answer) = job::write_job(TxContext::system(None), self.tx_config(), work);
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.send(job).await?,
            StoreDriver::Postgres(database) => database.send_lease(job).await?,
        }
        answer.await.unwrap_or_else(|_| Err(stopped_error().into()))
    }

    /// Sets after how many seconds without a heartbeat a runner counts as lost. This also limits how long a new session
    /// waits for the deployments of an ended session to stop.
    pub fn set_runner_lost_after(&mut self, seconds: i64) {
        self.lost_s = seconds;
    }

    fn tx_config(&self) -> TxConfig {
        let access = match &self.driver {
            StoreDriver::Sqlite { writer, .. } => Some(writer.access().clone()),
            StoreDriver::Postgres(_) => None,
        };
        TxConfig { epoch: self.epoch.clone(), lost_s: self.lost_s, access }
    }

    /// Like [`Store::transact`], but for threads outside of an async runtime.
    pub fn transact_blocking<T, E>(
        &self,
        context: TxContext,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let org = context.org;
        let (job, answer) = job::write_job(context, self.tx_config(), work);
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.send_blocking(job)?,
            StoreDriver::Postgres(database) => database.send_blocking(org, job)?,
        }
        answer.blocking_recv().unwrap_or_else(|_| Err(stopped_error().into()))
    }

    /// Runs `work` on a snapshot that includes every write acknowledged so far.
    pub async fn read<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.send_read(org, work)?.await.unwrap_or_else(|_| Err(stopped_error().into()))
    }

    fn send_read<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, E>>, StoreError>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (look, answer): (ReadJob, _) = job::read_job(org, work);
        match &self.driver {
            StoreDriver::Sqlite { readers, .. } => readers.send(look)?,
            StoreDriver::Postgres(database) => database.send_read(look)?,
        }
        Ok(answer)
    }

    async fn send(&self, org: Option<OrgId>, job: WriteJob) -> Result<(), StoreError> {
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.send(job).await,
            StoreDriver::Postgres(database) => database.send(org, job).await,
        }
    }

    /// Like [`Store::read`], but for threads outside of an async runtime.
    pub fn read_blocking<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.send_read(org, work)?.blocking_recv().unwrap_or_else(|_| Err(stopped_error().into()))
    }

    /// Subscribes to the events of an organization. The first ones may have been committed just before the call, so
    /// callers must compare sequence numbers.
    pub fn follow(&self, org: OrgId) -> EventFollower {
        self.feed.follow(org)
    }

    /// Changes whenever another server commits. `None` if no other server can share the database.
    pub fn watch_remote_commits(&self) -> Option<watch::Receiver<()>> {
        match &self.driver {
            StoreDriver::Sqlite { .. } => None,
            StoreDriver::Postgres(database) => Some(database.watch_remote_commits()),
        }
    }

    /// The access generation and the time in the store. Permissions that are read after this call may be cached until
    /// the generation changes. `None` if permissions must not be cached: while they are being changed, and always on
    /// PostgreSQL.
    pub fn access_generation(&self) -> Option<(u64, Timestamp)> {
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.access().current().map(|it| (it, writer.now())),
            StoreDriver::Postgres(_) => None,
        }
    }

    /// Commit latencies and the length of the write queue.
    pub fn commit_stats(&self) -> CommitStats {
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.commit_stats(),
            StoreDriver::Postgres(database) => database.commit_stats(),
        }
    }

    /// Becomes `Some` when the disk has failed, or when a newer server has made the schema unusable for this program; the
    /// process should then exit.
    pub fn watch_failure(&self) -> watch::Receiver<Option<StoreError>> {
        match &self.driver {
            StoreDriver::Sqlite { writer, .. } => writer.watch_failure(),
            // PostgreSQL handles its own disk failures.
            StoreDriver::Postgres(database) => database.watch_outdated(),
        }
    }
}

fn stopped_error() -> StoreError {
    StoreError::Unavailable("the store stopped before the transaction ended".into())
}

/// One reader thread per core. The number is bounded to limit the memory used for page caches.
fn reader_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8)
}
