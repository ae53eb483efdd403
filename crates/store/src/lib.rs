//! Durable records behind a synchronous store.
//!
//! Async code hands in a closure and awaits its answer; the closure runs on a thread that owns a connection. So no
//! lock is held across an `.await`, and a dropped request cannot cancel a commit.

mod access_generation;
pub mod backup;
pub mod chain;
pub mod commits;
pub mod copy;
pub mod data_dir;
mod entropy;
pub mod error;
mod event_terms;
pub mod feed;
pub mod idempotency;
pub mod incarnation;
mod job;
pub mod migrations;
pub mod outbox;
pub mod pagination;
mod postgres;
pub mod query;
mod queue;
pub mod read_only;
pub mod records;
pub mod sql;
mod sqlite;
pub mod tables;
mod trail;
mod tx;
mod value;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use berth_core::environment::limits::RUNNER_LOST_S;
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use data_dir::DataDir;
use tokio::sync::{oneshot, watch};

use access_generation::AccessGeneration;
use commits::Counted;
use feed::{Feed, Follower};

pub use error::{OpenError, StoreError};
pub use tx::{Context, Read, Reader, Tx};
pub use value::{Row, Value, text};

use job::{Job, Look};

pub struct Store {
    // Ends before the feed, whose news come from it.
    driver: Driver,
    feed: Feed,
    /// The upper part of every fence given by this program, where connections do not know it themselves.
    epoch: Arc<AtomicI64>,
    lost_s: i64,
}

/// What every transaction is told of the installation.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// Looked at when the transaction begins, and not when it is asked for: it may rise while one waits.
    pub(crate) epoch: Arc<AtomicI64>,
    pub(crate) lost_s: i64,
    /// Where this process alone writes.
    pub(crate) access: Option<Arc<AccessGeneration>>,
}

enum Driver {
    // Readers stop before the writer, whose last act is to empty the WAL.
    Sqlite { readers: sqlite::Readers, writer: sqlite::Writer },
    Postgres(postgres::Postgres),
}

impl Store {
    /// Opens the SQLite database at `path`, making or migrating it if need be.
    pub fn open_sqlite(path: &Path) -> Result<Self, OpenError> {
        sqlite::check_version()?;
        let ahead = sqlite::Ahead::default();
        let epoch = Arc::new(AtomicI64::new(sqlite::migrate(path, sqlite::now(&ahead))?));
        let (feed, publisher) = Feed::start()?;
        let writer = sqlite::Writer::start(path, publisher, ahead.clone())?;
        let readers = sqlite::Readers::start(path, reader_count(), &ahead)?;
        Ok(Self { driver: Driver::Sqlite { readers, writer }, feed, epoch, lost_s: RUNNER_LOST_S })
    }

    /// As [`Store::open_sqlite`], for the one who owns the directory: a database that was copied into it is refused.
    pub fn open_in(dir: &DataDir) -> Result<Self, OpenError> {
        sqlite::check_version()?;
        // Before it is migrated: what is refused is left as it is.
        incarnation::check(dir)?;
        Self::open_sqlite(&dir.database())
    }

    /// A server begins: from here on no earlier copy of the database belongs to the directory.
    pub fn begin_in(&self, dir: &DataDir) -> Result<(), OpenError> {
        incarnation::renew(self, dir)
    }

    /// Opens the PostgreSQL database at `url`, migrating it if need be. Several servers may have it open.
    pub fn open_postgres(url: &str) -> Result<Self, OpenError> {
        let (feed, publisher) = Feed::start()?;
        let (database, epoch) = postgres::Postgres::open(url, reader_count(), publisher)?;
        let epoch = Arc::new(AtomicI64::new(epoch));
        Ok(Self { driver: Driver::Postgres(database), feed, epoch, lost_s: RUNNER_LOST_S })
    }

    /// The upper part of every fence given from here on.
    pub fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// For when counters of fences may have been lost; `given`: an epoch that was given elsewhere. No server may be running.
    pub fn raise_epoch(&mut self, given: Option<i64>) -> Result<(), StoreError> {
        self.transact_blocking(Context::system(None), move |tx| tables::instance::raise_epoch(tx, given))
    }

    /// Whether other servers may be writing to the same database.
    pub fn is_shared(&self) -> bool {
        matches!(self.driver, Driver::Postgres(_))
    }

    /// Runs `work` in a transaction; everything it wrote is durable when this answers, or nothing is.
    pub async fn transact<T, E>(
        &self,
        context: Context,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let org = context.org;
        let (job, answer) = job::change(context, self.ground(), work);
        self.send(org, job).await?;
        answer.await.unwrap_or_else(|_| Err(lost().into()))
    }

    /// As [`Store::transact`], for leases and nothing else: nobody waits for them.
    pub async fn transact_lease<T, E>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (job, answer) = job::change(Context::system(None), self.ground(), work);
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.send(job).await?,
            Driver::Postgres(database) => database.send_lease(job).await?,
        }
        answer.await.unwrap_or_else(|_| Err(lost().into()))
    }

    /// When a runner is called lost, in seconds: the drain of a taken environment is over by then.
    pub fn calls_lost_after(&mut self, seconds: i64) {
        self.lost_s = seconds;
    }

    fn ground(&self) -> Ground {
        let access = match &self.driver {
            Driver::Sqlite { writer, .. } => Some(writer.access().clone()),
            Driver::Postgres(_) => None,
        };
        Ground { epoch: self.epoch.clone(), lost_s: self.lost_s, access }
    }

    /// For threads without a runtime: `berth init`, and those of the embedded runner.
    pub fn transact_blocking<T, E>(
        &self,
        context: Context,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let org = context.org;
        let (job, answer) = job::change(context, self.ground(), work);
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.send_blocking(job)?,
            Driver::Postgres(database) => database.send_blocking(org, job)?,
        }
        answer.blocking_recv().unwrap_or_else(|_| Err(lost().into()))
    }

    /// Runs `work` on a snapshot that shows everything acknowledged so far.
    pub async fn read<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.send_read(org, work)?.await.unwrap_or_else(|_| Err(lost().into()))
    }

    fn send_read<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, E>>, StoreError>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (look, answer): (Look, _) = job::look(org, work);
        match &self.driver {
            Driver::Sqlite { readers, .. } => readers.send(look)?,
            Driver::Postgres(database) => database.look(look)?,
        }
        Ok(answer)
    }

    async fn send(&self, org: Option<OrgId>, job: Job) -> Result<(), StoreError> {
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.send(job).await,
            Driver::Postgres(database) => database.send(org, job).await,
        }
    }

    /// As [`Store::read`], for threads without a runtime.
    pub fn read_blocking<T, E>(
        &self,
        org: Option<OrgId>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.send_read(org, work)?.blocking_recv().unwrap_or_else(|_| Err(lost().into()))
    }

    /// Follows an organization's events from here on, as they are committed. An event that was committed just before
    /// may still be heard of; its number tells.
    pub fn follow(&self, org: OrgId) -> Follower {
        self.feed.follow(org)
    }

    /// Changes when another server has committed something. `None`: there are no others.
    pub fn nudged(&self) -> Option<watch::Receiver<()>> {
        match &self.driver {
            Driver::Sqlite { .. } => None,
            Driver::Postgres(database) => Some(database.nudged()),
        }
    }

    /// The access generation and the store's time. Permissions that were read after the generation was noted hold for as
    /// long as it is the same. `None`: they have to be read again; always so where other servers write too.
    pub fn access(&self) -> Option<(u64, Timestamp)> {
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.access().current().map(|it| (it, writer.now())),
            Driver::Postgres(_) => None,
        }
    }

    /// How long commits took so far, and how much waits.
    pub fn commits(&self) -> Counted {
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.commits(),
            Driver::Postgres(database) => database.commits(),
        }
    }

    /// Becomes `Some` when the disk failed and the process should end.
    pub fn broken(&self) -> watch::Receiver<Option<StoreError>> {
        match &self.driver {
            Driver::Sqlite { writer, .. } => writer.broken(),
            // It has its own disks, and comes back by itself.
            Driver::Postgres(_) => watch::channel(None).1,
        }
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the store stopped before it answered".into())
}

/// A reader per core, but not so many that their caches matter.
fn reader_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8)
}
