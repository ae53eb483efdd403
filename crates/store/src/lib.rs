//! Durable records behind a synchronous store.
//!
//! Async code hands in a closure and awaits its answer; the closure runs on a thread that owns a connection. So no
//! lock is held across an `.await`, and a dropped request cannot cancel a commit.

pub mod chain;
pub mod data_dir;
pub mod error;
pub mod feed;
pub mod idempotency;
mod lists;
pub mod migrations;
pub mod outbox;
pub mod query;
pub mod records;
pub mod sql;
mod sqlite;
mod trail;
mod tx;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use berth_core::id::OrgId;
use tokio::sync::{oneshot, watch};

use feed::{Feed, Follower};

pub use error::{OpenError, StoreError};
pub use tx::{Context, Read, Reader, Tx};
pub use value::{Row, Value, text};

use sqlite::{Ahead, Readers, Writer};

pub struct Store {
    // Readers stop before the writer, whose last act is to empty the write-ahead log.
    readers: Readers,
    writer: Writer,
    // Ends after the writer, which is the one that tells it.
    feed: Feed,
    /// The upper part of every fence given by this program.
    epoch: i64,
}

impl Store {
    /// Opens the SQLite database at `path`, making or migrating it if need be.
    pub fn open_sqlite(path: &Path) -> Result<Self, OpenError> {
        sqlite::check_version()?;
        let ahead = Ahead::default();
        let epoch = sqlite::migrate(path, sqlite::now(&ahead))?;
        let (feed, publisher) = Feed::start()?;
        let writer = Writer::start(path, publisher, ahead.clone())?;
        let readers = Readers::start(path, reader_count(), &ahead)?;
        Ok(Self { readers, writer, feed, epoch })
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
        let (job, answer) = job(context, self.epoch, work);
        self.writer.send(job).await?;
        answer.await.unwrap_or_else(|_| Err(lost().into()))
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
        let (job, answer) = job(context, self.epoch, work);
        self.writer.send_blocking(job)?;
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
        let (tell, answer) = oneshot::channel();
        self.readers.send(Box::new(move |conn, now| {
            let mut reader = Reader::new(conn, org, now);
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut reader)));
            let _ = tell.send(result.unwrap_or_else(|_| Err(panicked().into())));
        }))?;
        Ok(answer)
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

    /// Becomes `Some` when the disk failed and the process should end.
    pub fn broken(&self) -> watch::Receiver<Option<StoreError>> {
        self.writer.broken()
    }
}

fn job<T, E>(
    context: Context,
    epoch: i64,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
) -> (sqlite::Job, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (tell, answer) = oneshot::channel();
    let job: sqlite::Job = Box::new(move |conn, now| {
        let mut tx = Tx::new(conn, context, now, epoch);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let value = work(&mut tx)?;
            Ok((value, tx.finish()?))
        }));
        let (result, events) = match result.unwrap_or_else(|_| Err(panicked().into())) {
            Ok((value, events)) => (Ok(value), events),
            Err(error) => (Err(error), Vec::new()),
        };
        sqlite::Ran {
            keep: result.is_ok(),
            events,
            answer: Box::new(move |failure| {
                let _ = tell.send(match failure {
                    None => result,
                    Some(error) => Err(error.into()),
                });
            }),
        }
    });
    (job, answer)
}

fn panicked() -> StoreError {
    StoreError::Bug("a panic inside a transaction; nothing was written".into())
}

fn lost() -> StoreError {
    StoreError::Unavailable("the store stopped before it answered".into())
}

/// A reader per core, but not so many that their caches matter.
fn reader_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8)
}
