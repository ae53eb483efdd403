//! Linearizability of the lock: many concurrent clients, a server that is killed in between, and a recorded history;
//! then a search for one order of operations that explains every response.
//!
//! `known` and `fake` test the checks themselves, with handwritten histories and a lock with injected bugs.

pub(crate) mod board;
mod crowd;
pub(crate) mod epochs;
mod fake;
pub(crate) mod history;
mod intervals;
mod known;
mod lock;
mod naive;
pub(crate) mod people;
mod replicas;
mod search;
pub(crate) mod served;

use history::Operation;
use search::Verdict;

/// Runs both checks on one environment's history; returns a description of the error.
fn check_history(history: &[Operation]) -> Result<(), String> {
    let history = &epochs::take_off(history)?;
    intervals::check(history)?;
    match search::search::<lock::Lock>(history) {
        Verdict::Linearizable => Ok(()),
        verdict => Err(search::explain(history, &verdict)),
    }
}
