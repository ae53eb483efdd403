//! Releases a session.

use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::state::{LockHolder, Session, SessionEndReason, SessionState};
use super::transitions::SessionEnding;
use super::{NamedSession, check_fence, events, settle};
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::event::EventKind;

#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseOutcome {
    pub session: Session,
    /// False if the session had already ended.
    pub released: bool,
}

#[derive(Debug, Clone)]
pub struct ReleaseCommand {
    pub by: LockHolder,
    /// Whether the caller may end other members' sessions.
    pub may_force: bool,
}

pub fn release(
    lock: &Lock,
    named: &NamedSession<'_>,
    cmd: &ReleaseCommand,
    moment: &DecisionContext,
) -> RefusableDecision<ReleaseOutcome> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_fence(&draft.lock, named.expected) {
        return draft.refuse(refusal);
    }
    let active = draft.lock.session.as_ref().filter(|active| active.id == named.session.id);
    let Some(active) = active else {
        let session = ended_session(&draft, named.session);
        return draft.finish(Ok(ReleaseOutcome { session, released: false }));
    };
    if !active.holder.is_same(&cmd.by) && !cmd.may_force {
        let refusal = CommandRefusal::NotSessionHolder(active.holder.clone());
        return draft.refuse(refusal);
    }
    let ending =
        SessionEnding { reason: SessionEndReason::Released, by: cmd.by.actor(), why: None, successor: None };
    let Some(session) = draft.end_session(ending) else { unreachable!("it was active a moment ago") };
    let event = events::session_ended_event(EventKind::SessionReleased, &draft.lock, &session);
    draft.record(event);
    settle::after_end(&mut draft);
    draft.finish(Ok(ReleaseOutcome { session, released: true }))
}

fn ended_session(draft: &LockDraft<'_>, named: &Session) -> Session {
    let session = draft.session_after(named);
    debug_assert_ne!(session.status(), SessionState::Active);
    session
}
