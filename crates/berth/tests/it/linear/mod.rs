//! Is the lock linearizable? Many clients at once, a server that is killed in between, and a record of everything they
//! were told; then a search for one order of events that explains it.
//!
//! `known` and `fake` show that the checks see mistakes: in histories made by hand, and in a lock that has them.

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

/// Both checks of one environment's history; what is wrong, in words.
fn check_history(history: &[Operation]) -> Result<(), String> {
    let history = &epochs::take_off(history)?;
    intervals::check(history)?;
    match search::search::<lock::Lock>(history) {
        Verdict::Linearizable => Ok(()),
        verdict => Err(search::explain(history, &verdict)),
    }
}
