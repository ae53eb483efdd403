//! Fences across epochs. The high bits of a fence are its epoch, the low bits a counter. After a failover of the
//! database, new fences have a higher epoch, and the counter continues. This module checks the epochs and strips them,
//! so that the other checks see only counters.

use std::collections::BTreeMap;

use super::history::{LockAnswer, LockCall, Operation};

const COUNTER_BITS: u32 = 40;

/// Low bits of a fence: the session number within the environment.
pub(crate) fn counter(fence: u64) -> u64 {
    fence & ((1 << COUNTER_BITS) - 1)
}

/// Returns the history with fences reduced to their counters. Fails if the same counter occurs with two epochs, or if a
/// higher counter has a lower epoch.
pub(super) fn strip_epochs(history: &[Operation]) -> Result<Vec<Operation>, String> {
    let mut fences = BTreeMap::new();
    for fence in history.iter().filter_map(|operation| fence_of_answer(operation.answer()?)) {
        let known = *fences.entry(counter(fence)).or_insert(fence);
        if known != fence {
            return Err(format!("the fences {known} and {fence} have the same counter"));
        }
    }
    if let Some((before, after)) = fences.values().zip(fences.values().skip(1)).find(|(a, b)| a >= b) {
        return Err(format!("fence {before} is followed by {after}, of an earlier epoch"));
    }
    let mut history = history.to_vec();
    for operation in &mut history {
        if let LockCall::Force { only: Some(fence) } = &mut operation.call {
            *fence = counter(*fence);
        }
        match operation.outcome.as_mut().map(|outcome| &mut outcome.answer) {
            Some(LockAnswer::Opened(hold) | LockAnswer::Held(hold)) => hold.fence = counter(hold.fence),
            Some(LockAnswer::Free { fence }) => *fence = counter(*fence),
            _ => {}
        }
    }
    Ok(history)
}

fn fence_of_answer(answer: &LockAnswer) -> Option<u64> {
    match answer {
        LockAnswer::Opened(hold) | LockAnswer::Held(hold) => Some(hold.fence),
        LockAnswer::Free { fence } => Some(*fence),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::parse_history;
    use super::*;

    const LATER: u64 = 3 << COUNTER_BITS;

    #[test]
    fn counters_continue_in_a_later_epoch() {
        let second = LATER + 2;
        let history = parse_history(&format!(
            "0-1 claim -> opened s1 #1\n2-3 force if #1 -> opened s2 #{second}\n4-5 force if #{second} -> moved"
        ));
        let stripped = parse_history(
            "0-1 claim -> opened s1 #1\n2-3 force if #1 -> opened s2 #2\n4-5 force if #2 -> moved",
        );
        assert_eq!(strip_epochs(&history), Ok(stripped));
    }

    #[test]
    fn epoch_that_goes_back_or_counter_with_two_epochs_is_detected() {
        let first = LATER + 1;
        let back = parse_history(&format!("0-1 claim -> opened s1 #{first}\n2-3 force -> opened s2 #2"));
        assert!(strip_epochs(&back).is_err_and(|why| why.contains("earlier epoch")));
        let twice = parse_history(&format!("0-1 claim -> opened s1 #{first}\n2-3 get -> held s1 #1"));
        assert!(strip_epochs(&twice).is_err_and(|why| why.contains("same counter")));
    }
}
