//! The PostgreSQL driver: some threads write, some read, each with a connection of its own, and several servers may do so
//! at once. `docs/adr/0011-postgresql.md` tells why it is safe.

mod address;
mod conn;
mod epoch;
mod look;
mod news;
mod open;
mod reader;
mod writer;

use berth_core::id::OrgId;
use tokio::sync::watch;

use address::Address;
pub(crate) use address::told;
pub(crate) use conn::owned;
pub(crate) use look::Looker;
use news::News;
use reader::Readers;
use writer::{Place, Writers};

use crate::commits::Counted;
use crate::error::{OpenError, StoreError};
use crate::feed::Publisher;
use crate::job::{Job, Look};

pub(crate) struct Postgres {
    readers: Readers,
    // Before the news: they end when nobody writes.
    writers: Writers,
    news: News,
}

/// A connection to a database that was checked and migrated.
pub(crate) fn opened(url: &str) -> Result<::postgres::Client, OpenError> {
    let address = Address::parse(url)?;
    open::open(&address)?;
    Ok(address.connected(address::Purpose::Write)?.0)
}

impl Postgres {
    /// With the installation's epoch.
    pub(crate) fn open(url: &str, readers: usize, publisher: Publisher) -> Result<(Self, i64), OpenError> {
        let address = Address::parse(url)?;
        // On a thread of its own: the driver may not wait inside of somebody else's runtime.
        let opening = address.clone();
        let opened = std::thread::spawn(move || open::open(&opening)).join();
        let epoch =
            opened.unwrap_or_else(|_| Err(OpenError::Refused("opening the database broke".into())))?;
        let (news, nudges) = News::start(&address, publisher)?;
        let writers = Writers::start(&address, &nudges)?;
        let readers = Readers::start(&address, readers)?;
        Ok((Self { readers, writers, news }, epoch))
    }

    pub(crate) async fn send(&self, org: Option<OrgId>, job: Job) -> Result<(), StoreError> {
        self.writers.send(org.into(), job).await
    }

    /// For leases alone.
    pub(crate) async fn send_lease(&self, job: Job) -> Result<(), StoreError> {
        self.writers.send(Place::Leases, job).await
    }

    pub(crate) fn send_blocking(&self, org: Option<OrgId>, job: Job) -> Result<(), StoreError> {
        self.writers.send_blocking(org.into(), job)
    }

    /// Changes when another server has committed something.
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
