//! Releases the named session.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::moves::Ending;
use super::state::{EndReason, Holder, Session, SessionStatus};
use super::{Named, check_fence, settle, telling};
use crate::decision::{Refusal, Ruling};
use crate::event::EventKind;

#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    pub session: Session,
    /// False if the session had already ended.
    pub released: bool,
}

#[derive(Debug, Clone)]
pub struct Release {
    pub by: Holder,
    /// Whether the caller may end sessions of other members.
    pub may_force: bool,
}

pub fn release(lock: &Lock, named: &Named<'_>, cmd: &Release, moment: &Moment) -> Ruling<Released> {
    let mut draft = Draft::begin(lock, moment);
    if let Err(refusal) = check_fence(&draft.lock, named.expected) {
        return draft.refuse(refusal);
    }
    let active = draft.lock.session.as_ref().filter(|active| active.id == named.session.id);
    let Some(active) = active else {
        let session = ended_before(&draft, named.session);
        return draft.finish(Ok(Released { session, released: false }));
    };
    if active.holder.id != cmd.by.id && !cmd.may_force {
        let refusal = Refusal::NotSessionHolder(active.holder.clone());
        return draft.refuse(refusal);
    }
    let ending = Ending { reason: EndReason::Released, by: cmd.by.actor(), why: None, successor: None };
    let Some(session) = draft.end(ending) else { unreachable!("it was active a moment ago") };
    let event = telling::ended(EventKind::SessionReleased, &draft.lock, &session);
    draft.record(event);
    settle::after_end(&mut draft);
    draft.finish(Ok(Released { session, released: true }))
}

fn ended_before(draft: &Draft<'_>, named: &Session) -> Session {
    let session = draft.as_ended(named);
    debug_assert_ne!(session.status(), SessionStatus::Active);
    session
}
