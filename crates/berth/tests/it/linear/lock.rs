//! Specification of the lock: which responses are allowed in which state.

use std::sync::Arc;

use super::history::{LockAnswer, LockCall, Operation, SessionRef};
use super::search::Specification;

/// One environment. It never needs a reset, so every change of holder raises the fence by exactly one.
pub(super) struct LockSpec;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    holder: SpecHolder,
    /// Highest fence so far; the holder's, if there is one.
    fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SpecHolder {
    Nobody,
    Session(Arc<str>),
    /// Opened by a call without a response. The first response that names the session identifies it.
    Unnamed,
}

impl State {
    fn opened(&self, holder: SpecHolder) -> Self {
        Self { holder, fence: self.fence + 1 }
    }

    fn freed(&self) -> Self {
        Self { holder: SpecHolder::Nobody, fence: self.fence }
    }

    fn is_free(&self) -> bool {
        self.holder == SpecHolder::Nobody
    }

    fn is_held_by(&self, session: &Arc<str>) -> bool {
        matches!(&self.holder, SpecHolder::Session(holder) if holder == session)
    }

    /// The state after opening this session with the next fence.
    fn after_opening(&self, hold: &SessionRef) -> Option<Self> {
        (hold.fence == self.fence + 1).then(|| self.opened(SpecHolder::Session(hold.session.clone())))
    }

    /// The same state, after a response named this holder.
    fn after_naming(&self, hold: &SessionRef) -> Option<Self> {
        let fits = self.is_held_by(&hold.session) || self.holder == SpecHolder::Unnamed;
        let named = || Self { holder: SpecHolder::Session(hold.session.clone()), fence: self.fence };
        (fits && hold.fence == self.fence).then(named)
    }

    /// Returns whether `If-Match` accepts the call.
    fn accepts(&self, only: Option<u64>) -> bool {
        only.is_none_or(|fence| !self.is_free() && fence == self.fence)
    }
}

impl Specification for LockSpec {
    type State = State;
    type Operation = Operation;

    fn start() -> State {
        State { holder: SpecHolder::Nobody, fence: 0 }
    }

    fn step(state: &State, operation: &Operation) -> Option<State> {
        let same = || Some(state.clone());
        match (&operation.call, operation.answer()) {
            // A claim succeeds if and only if the lock is free; a refusal names the current holder.
            (LockCall::Claim, Some(LockAnswer::Opened(hold))) if state.is_free() => state.after_opening(hold),
            (LockCall::Claim | LockCall::Get, Some(LockAnswer::Held(hold))) => state.after_naming(hold),
            (LockCall::Claim, None) if state.is_free() => Some(state.opened(SpecHolder::Unnamed)),
            (LockCall::Claim, None) => same(),
            // With `If-Match`, a forced claim succeeds if and only if that session still holds the lock.
            (LockCall::Force { only }, Some(LockAnswer::Opened(hold))) if state.accepts(*only) => {
                state.after_opening(hold)
            }
            (LockCall::Force { only }, Some(LockAnswer::Moved)) if !state.accepts(*only) => same(),
            (LockCall::Force { only }, None) if state.accepts(*only) => {
                Some(state.opened(SpecHolder::Unnamed))
            }
            (LockCall::Force { .. }, None) => same(),
            // A release ends the named session, or none.
            (LockCall::Release { session }, Some(LockAnswer::Released)) if state.is_held_by(session) => {
                Some(state.freed())
            }
            (LockCall::Release { session }, Some(LockAnswer::NotActive)) if !state.is_held_by(session) => {
                same()
            }
            (LockCall::Release { session }, None) if state.is_held_by(session) => Some(state.freed()),
            (LockCall::Release { .. } | LockCall::Get, None) => same(),
            (LockCall::Get, Some(LockAnswer::Free { fence })) if state.is_free() && *fence == state.fence => {
                same()
            }
            _ => None,
        }
    }

    fn invoked(operation: &Operation) -> u64 {
        operation.invoked
    }

    fn returned(operation: &Operation) -> Option<u64> {
        operation.outcome.as_ref().map(|outcome| outcome.returned)
    }
}
