//! Jobs for the threads that own database connections. A job is a closure that sends its result back to the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_core::event::Event;
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::TxConfig;
use crate::error::StoreError;
use crate::sql::SqlConn;
use crate::tx::{ReadTx, Tx, TxContext, TxState};

/// A transaction that has begun, as passed to a write job.
pub(crate) struct BegunTx<'c> {
    pub(crate) conn: &'c mut dyn SqlConn,
    pub(crate) state: &'c mut TxState,
    /// The time in the store, which is the same for the whole transaction.
    pub(crate) now: Timestamp,
}

/// Runs inside a transaction, or receives the error if the transaction could not begin. Its result is sent to the
/// caller once the commit is durable.
pub(crate) type WriteJob = Box<dyn FnOnce(Result<BegunTx<'_>, StoreError>) -> JobOutcome + Send>;

/// Reads from a snapshot and sends the result to the caller.
pub(crate) type ReadJob = Box<dyn FnOnce(Result<(&mut dyn SqlConn, Timestamp), StoreError>) + Send>;

pub(crate) type ReplySender = Box<dyn FnOnce(Option<StoreError>) + Send>;

pub(crate) struct JobOutcome {
    /// Whether to commit what the job wrote.
    pub(crate) keep: bool,
    /// Recorded events, to be published after the commit.
    pub(crate) events: Vec<Event>,
    /// Sends the result to the caller. Called after the commit, with the error if the commit failed.
    pub(crate) answer: ReplySender,
}

pub(crate) fn write_job<T, E>(
    context: TxContext,
    ground: TxConfig,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
) -> (WriteJob, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (tell, answer) = oneshot::channel();
    let job: WriteJob = Box::new(move |begun| {
        let result = begun.map_err(E::from).and_then(|begun| {
            let mut tx = Tx::new(begun, context, ground);
            let ran = catch_unwind(AssertUnwindSafe(|| {
                let value = work(&mut tx)?;
                Ok((value, tx.finish()?))
            }));
            ran.unwrap_or_else(|_| Err(panic_error().into()))
        });
        let (result, events) = match result {
            Ok((value, events)) => (Ok(value), events),
            Err(error) => (Err(error), Vec::new()),
        };
        JobOutcome {
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

pub(crate) fn read_job<T, E>(
    org: Option<OrgId>,
    work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
) -> (ReadJob, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (tell, answer) = oneshot::channel();
    let look: ReadJob = Box::new(move |begun| {
        let result = begun.map_err(E::from).and_then(|(conn, now)| {
            let mut reader = ReadTx::new(conn, org, now);
            let looked = catch_unwind(AssertUnwindSafe(|| work(&mut reader)));
            looked.unwrap_or_else(|_| Err(panic_error().into()))
        });
        let _ = tell.send(result);
    });
    (look, answer)
}

fn panic_error() -> StoreError {
    StoreError::Bug("a transaction panicked; nothing was written".into())
}
