//! The PostgreSQL driver: writer and reader threads, each with its own connection. Several servers may share a
//! database; `docs/adr/0011-postgresql.md` explains why that is safe.

mod address;
mod conn;
mod epoch;
mod listen;
mod lock_scope;
mod open;
mod pipeline;
mod read_only;
mod reader;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_core::id::OrgId;
use tokio::sync::watch;

use address::PostgresAddress;
pub(crate) use address::error_chain;
pub(crate) use conn::read_row;
use listen::CommitNotifier;
use lock_scope::LockScope;
pub(crate) use open::read_schema_state;
pub(crate) use read_only::ReadOnlyClient;
use reader::PostgresReaders;
use writer::PostgresWriters;

use crate::commit_stats::CommitStats;
use crate::error::{OpenError, StoreError};
use crate::feed::FeedPublisher;
use crate::job::{ReadJob, WriteJob};
use crate::migrations::{SCHEMA, Schema};

pub(crate) struct PostgresDriver {
    round_trips: Arc<AtomicU64>,
    readers: PostgresReaders,
    // Must be dropped before `news`, whose sender thread ends only when the last writer is gone.
    writers: PostgresWriters,
    news: CommitNotifier,
}

/// Checks and migrates a database, and connects to it.
pub(crate) fn open_client(url: &str) -> Result<::postgres::Client, OpenError> {
    let address = PostgresAddress::parse(url)?;
    open::open_database(&address, &SCHEMA)?;
    Ok(address.open_connection(address::ConnectionPurpose::Write)?)
}

impl PostgresDriver {
    /// Returns the driver and the current epoch.
    pub(crate) fn open(
        url: &str,
        schema: Schema,
        readers: usize,
        publisher: FeedPublisher,
    ) -> Result<(Self, i64), OpenError> {
        let address = PostgresAddress::parse(url)?;
        // Runs on a separate thread, because the blocking client must not run inside an async runtime.
        let opening = address.clone();
        let opened = std::thread::spawn(move || open::open_database(&opening, &schema)).join();
        let epoch =
            opened.unwrap_or_else(|_| Err(OpenError::Refused("opening the database panicked".into())))?;
        let (news, nudges) = CommitNotifier::start(&address, publisher)?;
        let writers = PostgresWriters::start(&address, &nudges, schema.version())?;
        let readers = PostgresReaders::start(&address, readers)?;
        Ok((Self { round_trips: address.round_trips(), readers, writers, news }, epoch))
    }

    pub(crate) async fn send(&self, org: Option<OrgId>, job: WriteJob) -> Result<(), StoreError> {
        self.writers.send(org.into(), job).await
    }

    /// Queues a job that accesses leases only.
    pub(crate) async fn send_lease(&self, job: WriteJob) -> Result<(), StoreError> {
        self.writers.send(LockScope::Leases, job).await
    }

    pub(crate) fn send_blocking(&self, org: Option<OrgId>, job: WriteJob) -> Result<(), StoreError> {
        self.writers.send_blocking(org.into(), job)
    }

    /// Changes when another server commits.
    pub(crate) fn watch_remote_commits(&self) -> watch::Receiver<()> {
        self.news.watch_remote_commits()
    }

    pub(crate) fn commit_stats(&self) -> CommitStats {
        let round_trips = self.round_trips.load(Ordering::Relaxed);
        CommitStats { round_trips, ..self.writers.commit_stats() }
    }

    /// Becomes `Some` when a newer server has made the schema unusable for this program.
    pub(crate) fn watch_outdated(&self) -> watch::Receiver<Option<StoreError>> {
        self.writers.watch_outdated()
    }

    pub(crate) fn send_read(&self, look: ReadJob) -> Result<(), StoreError> {
        self.readers.send(look)
    }
}
