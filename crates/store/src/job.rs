//! Jobs for the threads that own connections: closures that send their result back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_core::event::Event;
use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use tokio::sync::oneshot;

use crate::Ground;
use crate::error::StoreError;
use crate::sql::Conn;
use crate::tx::{Context, Reader, Tx, TxState};

/// A transaction in progress.
pub(crate) struct Begun<'c> {
    pub(crate) conn: &'c mut dyn Conn,
    pub(crate) state: &'c mut TxState,
    /// The store's time.
    pub(crate) now: Timestamp,
}

/// Runs inside a transaction, or gets the error if it could not begin. Its result is sent once it is durable.
pub(crate) type Job = Box<dyn FnOnce(Result<Begun<'_>, StoreError>) -> Ran + Send>;

/// Reads a snapshot and sends the result.
pub(crate) type Look = Box<dyn FnOnce(Result<(&mut dyn Conn, Timestamp), StoreError>) + Send>;

pub(crate) type Answer = Box<dyn FnOnce(Option<StoreError>) + Send>;

pub(crate) struct Ran {
    /// Whether to commit.
    pub(crate) keep: bool,
    /// Published after the commit.
    pub(crate) events: Vec<Event>,
    /// Called after the commit, with the error if it failed.
    pub(crate) answer: Answer,
}

pub(crate) fn change<T, E>(
    context: Context,
    ground: Ground,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (tell, answer) = oneshot::channel();
    let job: Job = Box::new(move |begun| {
        let result = begun.map_err(E::from).and_then(|begun| {
            let mut tx = Tx::new(begun, context, ground);
            let ran = catch_unwind(AssertUnwindSafe(|| {
                let value = work(&mut tx)?;
                Ok((value, tx.finish()?))
            }));
            ran.unwrap_or_else(|_| Err(panicked().into()))
        });
        let (result, events) = match result {
            Ok((value, events)) => (Ok(value), events),
            Err(error) => (Err(error), Vec::new()),
        };
        Ran {
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

pub(crate) fn look<T, E>(
    org: Option<OrgId>,
    work: impl FnOnce(&mut Reader<'_>) -> Result<T, E> + Send + 'static,
) -> (Look, oneshot::Receiver<Result<T, E>>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (tell, answer) = oneshot::channel();
    let look: Look = Box::new(move |begun| {
        let result = begun.map_err(E::from).and_then(|(conn, now)| {
            let mut reader = Reader::new(conn, org, now);
            let looked = catch_unwind(AssertUnwindSafe(|| work(&mut reader)));
            looked.unwrap_or_else(|_| Err(panicked().into()))
        });
        let _ = tell.send(result);
    });
    (look, answer)
}

fn panicked() -> StoreError {
    StoreError::Bug("a transaction panicked; nothing was written".into())
}
