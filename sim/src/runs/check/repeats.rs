//! Idempotency: a repeated request gets the same answer and has no further effect.

use berth_core::deployment::report::Order;

use super::{Checked, Seen, ensure};
use crate::runs::scene::{Answer, Asked, decide};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if !seen.told.is_change || matches!(seen.asked, Asked::Enter | Asked::Retry { .. }) {
        return Ok(());
    }
    let again = decide(seen.after, seen.plan, seen.asked, seen.now);
    ensure!(again.change.is_none(), "repeats", "{:?} had an effect twice", seen.asked);
    ensure!(again.events.is_empty(), "repeats", "{:?} was told twice", seen.asked);
    let is_right = match seen.asked {
        Asked::Grant { .. } => again.answer == seen.told.answer,
        Asked::Report { .. } => again.answer == Answer::Order(Order::Stale),
        Asked::Cancel | Asked::CancelStage { .. } => again.answer == Answer::Done,
        Asked::Resolve { .. } => matches!(again.answer, Answer::Refused(_)),
        _ => true,
    };
    ensure!(is_right, "repeats", "{:?} was answered {:?} the second time", seen.asked, again.answer);
    Ok(())
}
