//! Linearizability of the lock. Many concurrent clients call a server that is killed in between, and all calls and
//! responses are recorded. Then a search looks for an order of all operations that explains every response.
//!
//! `known_histories` and `fake_lock` test the checks themselves, with handwritten histories and a lock with injected
//! bugs.

pub(crate) mod accounts;
mod brute_force;
mod contention;
pub(crate) mod epochs;
mod fake_lock;
pub(crate) mod history;
mod intervals;
mod known_histories;
mod lock;
pub(crate) mod real_server;
pub(crate) mod recorder;
mod replicas;
mod search;

use history::Operation;
use search::SearchVerdict;

/// Runs both checks on one environment's history; returns a description of the error.
fn check_history(history: &[Operation]) -> Result<(), String> {
    let history = &epochs::strip_epochs(history)?;
    intervals::check(history)?;
    match search::search::<lock::LockSpec>(history) {
        SearchVerdict::Linearizable => Ok(()),
        verdict => Err(search::explain(history, &verdict)),
    }
}
