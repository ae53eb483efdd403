//! The PostgreSQL driver: writer and reader threads, each with a connection. Several servers may share a database; for why
//! that is safe see `docs/adr/0011-postgresql.md`.

mod address;
mod conn;
mod epoch;
mod listen;
mod open;
mod read_only;
mod reader;
mod writer;

use berth_core::id::OrgId;
use tokio::sync::watch;

use address::Address;
pub(crate) use address::told;
pub(crate) use conn::owned;
use listen::News;
pub(crate) use read_only::Looker;
use reader::Readers;
use writer::{Place, Writers};

use crate::commit_stats::Counted;
use crate::error::{OpenError, StoreError};
use crate::feed::Publisher;
use crate::job::{Job, Look};

pub(crate) struct Postgres {
    readers: Readers,
    // Dropped before the notifications, whose sender thread ends with the last writer.
    writers: Writers,
    news: News,
}

/// Checks and migrates a database, and connects to it.
pub(crate) fn opened(url: &str) -> Result<::postgres::Client, OpenError> {
    let address = Address::parse(url)?;
    open::open(&address)?;
    Ok(address.connected(address::Purpose::Write)?.0)
}

impl Postgres {
    /// Returns the driver and the epoch.
    pub(crate) fn open(url: &str, readers: usize, publisher: Publisher) -> Result<(Self, i64), OpenError> {
        let address = Address::parse(url)?;
        // On its own thread: the blocking client must not run inside an async runtime.
        let opening = address.clone();
        let opened = std::thread::spawn(move || open::open(&opening)).join();
        let epoch =
            opened.unwrap_or_else(|_| Err(OpenError::Refused("opening the database panicked".into())))?;
        let (news, nudges) = News::start(&address, publisher)?;
        let writers = Writers::start(&address, &nudges)?;
        let readers = Readers::start(&address, readers)?;
        Ok((Self { readers, writers, news }, epoch))
    }

    pub(crate) async fn send(&self, org: Option<OrgId>, job: Job) -> Result<(), StoreError> {
        self.writers.send(org.into(), job).await
    }

    /// Queues a job that uses leases only.
    pub(crate) async fn send_lease(&self, job: Job) -> Result<(), StoreError> {
        self.writers.send(Place::Leases, job).await
    }

    pub(crate) fn send_blocking(&self, org: Option<OrgId>, job: Job) -> Result<(), StoreError> {
        self.writers.send_blocking(org.into(), job)
    }

    /// Notified when another server commits.
    pub(crate) fn nudged(&self) -> watch::Receiver<()> {
        self.news.nudged()
    }

    pub(crate) fn commits(&self) -> Counted {
        self.writers.commits()
    }

    pub(crate) fn look(&self, look: Look) -> Result<(), StoreError> {
        self.readers.send(look)
    }
}
