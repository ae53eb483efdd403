//! Specification of the lock: which responses are allowed in which state.

use std::sync::Arc;

use super::history::{Answer, Call, Hold, Operation};
use super::search::Specification;

/// One environment. It never needs a reset, so every change of holder raises the fence by exactly one.
pub(super) struct Lock;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    holder: Holder,
    /// Highest fence so far; the holder's, if there is one.
    fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Nobody,
    Session(Arc<str>),
    /// Opened by a call without a response. The first response that names the session identifies it.
    Unnamed,
}

impl State {
    fn opened(&self, holder: Holder) -> Self {
        Self { holder, fence: self.fence + 1 }
    }

    fn freed(&self) -> Self {
        Self { holder: Holder::Nobody, fence: self.fence }
    }

    fn is_free(&self) -> bool {
        self.holder == Holder::Nobody
    }

    fn is_held_by(&self, session: &Arc<str>) -> bool {
        matches!(&self.holder, Holder::Session(holder) if holder == session)
    }

    /// The state after opening this session with the next fence.
    fn opening(&self, hold: &Hold) -> Option<Self> {
        (hold.fence == self.fence + 1).then(|| self.opened(Holder::Session(hold.session.clone())))
    }

    /// The same state, after a response named this holder.
    fn showing(&self, hold: &Hold) -> Option<Self> {
        let fits = self.is_held_by(&hold.session) || self.holder == Holder::Unnamed;
        let named = || Self { holder: Holder::Session(hold.session.clone()), fence: self.fence };
        (fits && hold.fence == self.fence).then(named)
    }

    /// Returns whether `If-Match` accepts the call.
    fn lets(&self, only: Option<u64>) -> bool {
        only.is_none_or(|fence| !self.is_free() && fence == self.fence)
    }
}

impl Specification for Lock {
    type State = State;
    type Operation = Operation;

    fn start() -> State {
        State { holder: Holder::Nobody, fence: 0 }
    }

    fn step(state: &State, operation: &Operation) -> Option<State> {
        let same = || Some(state.clone());
        match (&operation.call, operation.answer()) {
            // A claim succeeds if and only if the lock is free; a refusal names the current holder.
            (Call::Claim, Some(Answer::Opened(hold))) if state.is_free() => state.opening(hold),
            (Call::Claim | Call::Get, Some(Answer::Held(hold))) => state.showing(hold),
            (Call::Claim, None) if state.is_free() => Some(state.opened(Holder::Unnamed)),
            (Call::Claim, None) => same(),
            // With `If-Match`, a forced claim succeeds if and only if that session still holds the lock.
            (Call::Force { only }, Some(Answer::Opened(hold))) if state.lets(*only) => state.opening(hold),
            (Call::Force { only }, Some(Answer::Moved)) if !state.lets(*only) => same(),
            (Call::Force { only }, None) if state.lets(*only) => Some(state.opened(Holder::Unnamed)),
            (Call::Force { .. }, None) => same(),
            // A release ends the named session, or none.
            (Call::Release { session }, Some(Answer::Released)) if state.is_held_by(session) => {
                Some(state.freed())
            }
            (Call::Release { session }, Some(Answer::NotActive)) if !state.is_held_by(session) => same(),
            (Call::Release { session }, None) if state.is_held_by(session) => Some(state.freed()),
            (Call::Release { .. } | Call::Get, None) => same(),
            (Call::Get, Some(Answer::Free { fence })) if state.is_free() && *fence == state.fence => same(),
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
