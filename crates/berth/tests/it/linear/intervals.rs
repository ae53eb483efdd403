//! A check in linear time, for histories of any length: sessions must follow each other in the order of their fences.
//!
//! A lock only moves forward: it is free, held with fence 1, free again or held with fence 2, and so on. If these
//! states are numbered, every response proves that the lock was in a certain state at some instant between call and
//! return. After a response has proved one state, no later response may prove an earlier state. One pass thus checks
//! that there are never two holders and that a later session has a higher fence.

use std::collections::{BTreeMap, HashMap};

use super::history::{LockAnswer, LockCall, Operation, SessionRef, Tick};

/// Number of a lock state: twice the fence while the lock is held, and one more after it has been released.
type LockPosition = u64;

fn held_position(fence: u64) -> LockPosition {
    2 * fence
}

fn free_position(fence: u64) -> LockPosition {
    2 * fence + 1
}

/// When the lock can have been in a state, according to the responses that prove it.
#[derive(Default)]
struct PositionBounds<'a> {
    /// The operation with the earliest return that proves the lock had reached this state.
    first: Option<(Tick, &'a Operation)>,
    /// The operation with the latest call that proves the lock had not left this state.
    last: Option<(Tick, &'a Operation)>,
}

/// Facts that responses reveal about a session.
struct SessionFacts {
    fence: u64,
    /// When a client first learned of the session.
    since: Tick,
}

type SessionTable<'a> = HashMap<&'a str, SessionFacts>;

/// Returns the first error found.
pub(super) fn check(history: &[Operation]) -> Result<(), String> {
    let sessions = check_names(history)?;
    check_no_repeats(history)?;
    check_gaps(history)?;
    check_order(history, &sessions)
}

/// Checks that a session has exactly one fence, and a fence exactly one session.
fn check_names(history: &[Operation]) -> Result<SessionTable<'_>, String> {
    let (mut sessions, mut by_fence) = (SessionTable::new(), HashMap::new());
    for operation in history {
        let Some(outcome) = &operation.outcome else { continue };
        let (LockAnswer::Opened(hold) | LockAnswer::Held(hold)) = &outcome.answer else { continue };
        let SessionRef { session, fence } = hold;
        let since = outcome.returned;
        let known = sessions.entry(session).or_insert(SessionFacts { fence: *fence, since });
        known.since = known.since.min(since);
        let owner = *by_fence.entry(*fence).or_insert(session);
        if known.fence != *fence || owner != session {
            return Err(format!(
                "{session} had fence {}, fence {fence} was {owner}: {operation}",
                known.fence
            ));
        }
    }
    Ok(sessions)
}

/// Checks that no session is opened or released twice.
fn check_no_repeats(history: &[Operation]) -> Result<(), String> {
    let mut known = HashMap::new();
    for operation in history {
        let what = match (&operation.call, operation.answer()) {
            (_, Some(LockAnswer::Opened(hold))) => ("opened", &hold.session),
            (LockCall::Release { session }, Some(LockAnswer::Released)) => ("released", session),
            _ => continue,
        };
        if let Some(other) = known.insert(what, operation) {
            return Err(format!("{} was {} twice:\n  {other}\n  {operation}", what.1, what.0));
        }
    }
    Ok(())
}

/// Checks that fences have no unexplained gaps. Each session takes the next fence, so a gap requires a call without a
/// response, which may have opened a session.
fn check_gaps(history: &[Operation]) -> Result<(), String> {
    let (mut highest, mut opened, mut lost) = (0, 0, 0);
    for operation in history {
        match operation.answer() {
            Some(LockAnswer::Opened(hold)) => {
                opened += 1;
                highest = highest.max(hold.fence);
            }
            Some(LockAnswer::Held(hold)) => highest = highest.max(hold.fence),
            Some(LockAnswer::Free { fence }) => highest = highest.max(*fence),
            None if operation.is_opening() => lost += 1,
            _ => {}
        }
    }
    if highest <= opened + lost {
        return Ok(());
    }
    Err(format!("fence {highest} after {opened} sessions and {lost} calls without an answer"))
}

fn check_order(history: &[Operation], sessions: &SessionTable<'_>) -> Result<(), String> {
    let mut row: BTreeMap<LockPosition, PositionBounds<'_>> = BTreeMap::new();
    for operation in history {
        let Some(outcome) = &operation.outcome else { continue };
        let Some(shows) = AnswerBounds::from_operation(operation, sessions) else { continue };
        let first = &mut row.entry(shows.reached).or_default().first;
        if first.is_none_or(|(returned, _)| outcome.returned < returned) {
            *first = Some((outcome.returned, operation));
        }
        if let Some(left) = shows.left {
            let last = &mut row.entry(left).or_default().last;
            if last.is_none_or(|(invoked, _)| operation.invoked > invoked) {
                *last = Some((operation.invoked, operation));
            }
        }
    }
    let mut later: Option<(Tick, &Operation)> = None;
    for shown in row.values().rev() {
        if let (Some((invoked, early)), Some((returned, late))) = (shown.last, later)
            && invoked > returned
        {
            return Err(format!("the lock went back:\n  {late}\nand later\n  {early}"));
        }
        later = [later, shown.first].into_iter().flatten().min_by_key(|(returned, _)| *returned);
    }
    Ok(())
}

/// What a response proves about the lock's state.
struct AnswerBounds {
    /// The lock had reached this state by the time the call returned.
    reached: LockPosition,
    /// The lock had not left this state when the call was sent. `None` if the response does not prove that.
    left: Option<LockPosition>,
}

impl AnswerBounds {
    fn from_operation(operation: &Operation, sessions: &SessionTable<'_>) -> Option<Self> {
        let at = |place| Some(Self { reached: place, left: Some(place) });
        match (&operation.call, operation.answer()?) {
            (_, LockAnswer::Opened(hold)) => {
                let place = held_position(hold.fence);
                Some(Self { reached: place, left: place.checked_sub(1) })
            }
            (_, LockAnswer::Held(hold)) => at(held_position(hold.fence)),
            (_, LockAnswer::Free { fence }) => at(free_position(*fence)),
            (LockCall::Release { session }, answer) => {
                let SessionFacts { fence, since } = sessions.get(&**session)?;
                let place = free_position(*fence);
                match answer {
                    LockAnswer::Released => Some(Self { reached: place, left: Some(held_position(*fence)) }),
                    // A client knew of the session before the call, so "not active" means that the session has ended.
                    _ if *since < operation.invoked => Some(Self { reached: place, left: None }),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
