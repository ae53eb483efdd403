//! Specification of the lock: which responses are allowed in which state.

use std::sync::Arc;

use super::history::{LockAnswer, LockCall, Operation, SessionRef};
use super::search::Specification;

/// Specification of one environment. The environment has no reset step, so every change of holder raises the fence by
/// exactly one.
pub(super) struct LockSpec;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LockSpecState {
    holder: SpecHolder,
    /// The highest fence so far, which is the current holder's if there is one.
    fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SpecHolder {
    Free,
    Session(Arc<str>),
    /// A session opened by a call that got no response. Its id is known from the first response that mentions it.
    Unnamed,
}

impl LockSpecState {
    fn with_holder(&self, holder: SpecHolder) -> Self {
        Self { holder, fence: self.fence + 1 }
    }

    fn without_holder(&self) -> Self {
        Self { holder: SpecHolder::Free, fence: self.fence }
    }

    fn is_free(&self) -> bool {
        self.holder == SpecHolder::Free
    }

    fn is_held_by(&self, session: &Arc<str>) -> bool {
        matches!(&self.holder, SpecHolder::Session(holder) if holder == session)
    }

    /// Returns the state after this session was opened, or `None` if its fence is not the next one.
    fn after_opening(&self, hold: &SessionRef) -> Option<Self> {
        (hold.fence == self.fence + 1).then(|| self.with_holder(SpecHolder::Session(hold.session.clone())))
    }

    /// Returns the state after a response named this holder, or `None` if the holder is a different one.
    fn after_naming(&self, hold: &SessionRef) -> Option<Self> {
        let fits = self.is_held_by(&hold.session) || self.holder == SpecHolder::Unnamed;
        let named = || Self { holder: SpecHolder::Session(hold.session.clone()), fence: self.fence };
        (fits && hold.fence == self.fence).then(named)
    }

    /// Returns whether the condition of `If-Match` is met.
    fn accepts(&self, only: Option<u64>) -> bool {
        only.is_none_or(|fence| !self.is_free() && fence == self.fence)
    }
}

impl Specification for LockSpec {
    type State = LockSpecState;
    type Operation = Operation;

    fn start() -> LockSpecState {
        LockSpecState { holder: SpecHolder::Free, fence: 0 }
    }

    fn step(state: &LockSpecState, operation: &Operation) -> Option<LockSpecState> {
        let same = || Some(state.clone());
        match (&operation.call, operation.answer()) {
            // A claim succeeds if and only if the lock is free; a refusal names the current holder.
            (LockCall::Claim, Some(LockAnswer::Opened(hold))) if state.is_free() => state.after_opening(hold),
            (LockCall::Claim | LockCall::Get, Some(LockAnswer::Held(hold))) => state.after_naming(hold),
            (LockCall::Claim, None) if state.is_free() => Some(state.with_holder(SpecHolder::Unnamed)),
            (LockCall::Claim, None) => same(),
            // With `If-Match`, a forced claim succeeds if and only if that session still holds the lock.
            (LockCall::Force { only }, Some(LockAnswer::Opened(hold))) if state.accepts(*only) => {
                state.after_opening(hold)
            }
            (LockCall::Force { only }, Some(LockAnswer::Moved)) if !state.accepts(*only) => same(),
            (LockCall::Force { only }, None) if state.accepts(*only) => {
                Some(state.with_holder(SpecHolder::Unnamed))
            }
            (LockCall::Force { .. }, None) => same(),
            // A release ends the named session and no other.
            (LockCall::Release { session }, Some(LockAnswer::Released)) if state.is_held_by(session) => {
                Some(state.without_holder())
            }
            (LockCall::Release { session }, Some(LockAnswer::NotActive)) if !state.is_held_by(session) => {
                same()
            }
            (LockCall::Release { session }, None) if state.is_held_by(session) => {
                Some(state.without_holder())
            }
            (LockCall::Release { .. } | LockCall::Get, None) => same(),
            (LockCall::Get, Some(LockAnswer::Free { fence })) if state.is_free() && *fence == state.fence => {
                same()
            }
            _ => None,
        }
    }

    fn invoked_at(operation: &Operation) -> u64 {
        operation.invoked
    }

    fn returned_at(operation: &Operation) -> Option<u64> {
        operation.outcome.as_ref().map(|outcome| outcome.returned)
    }
}
