//! The lock on an environment: who holds it, who waits for it, and what may happen in it.
//!
//! Every rule is a function of a [`Lock`], a command and a [`Moment`]. Each rule first applies expired timers (a
//! session ends, the next ticket is granted) and applies them again at the end, so no stored state has a free
//! environment with a valid ticket waiting.
//!
//! A timer only decides when to *try* to end something; the record and the fence decide whether it has ended.

pub mod claim;
pub mod declare;
pub mod deploy;
mod draft;
pub mod eta;
pub mod extend;
pub mod fence;
pub mod force;
pub mod hand_over;
pub mod limits;
mod lock;
mod moves;
pub mod queue;
pub mod release;
pub mod restored;
mod settle;
mod state;
mod telling;

pub(crate) use draft::Draft;
pub use draft::Moment;
pub use lock::Lock;
pub use settle::{due_at, ends_at, settle};
pub use state::{
    Agenda, Condition, Drain, End, EndReason, Environment, Holder, Locked, NotActive, Session, SessionStatus,
    State, Takeover, Ticket, TicketCause, TicketStatus, Wish,
};

use crate::decision::Refusal;

/// The session that a command refers to.
#[derive(Debug, Clone)]
pub struct Named<'a> {
    /// As loaded; it may have ended.
    pub session: &'a Session,
    /// `If-Match`: proceed only if this is still the fence of the active session.
    pub expected: Option<fence::Fence>,
}

impl Named<'_> {
    /// The active session if it is the named one; otherwise a refusal that says how the named one ended.
    pub(crate) fn active<'d>(&self, draft: &'d mut Draft<'_>) -> Result<&'d mut Session, Refusal> {
        check_fence(&draft.lock, self.expected)?;
        let current_fence = draft.lock.environment.fence;
        let ended = draft.as_ended(self.session);
        match &mut draft.lock.session {
            Some(active) if active.id == self.session.id => Ok(active),
            _ => Err(Refusal::SessionNotActive(Box::new(NotActive { session: ended, current_fence }))),
        }
    }

    /// Like [`Self::active`], and checks that `by` is the holder.
    pub(crate) fn held_by<'d>(
        &self,
        by: &Holder,
        draft: &'d mut Draft<'_>,
    ) -> Result<&'d mut Session, Refusal> {
        let session = self.active(draft)?;
        if session.holder.id != by.id {
            return Err(Refusal::NotSessionHolder(session.holder.clone()));
        }
        Ok(session)
    }
}

/// `If-Match`: the holder is still the one that the caller saw.
fn check_fence(lock: &Lock, expected: Option<fence::Fence>) -> Result<(), Refusal> {
    let current = lock.session.as_ref().map(|session| session.fence);
    match expected {
        Some(_) if expected != current => Err(Refusal::FenceMoved { current }),
        _ => Ok(()),
    }
}

/// New sessions need an environment that the definition still declares.
fn check_declared(lock: &Lock) -> Result<(), Refusal> {
    if lock.environment.is_declared {
        return Ok(());
    }
    let text =
        "the definition no longer has this environment; the current holder keeps it until their session ends";
    Err(Refusal::InvalidState(text.into()))
}

pub(crate) fn fence_refused(lock: &Lock) -> crate::event::NewEvent {
    telling::environment(crate::event::EventKind::EnvironmentFenceRefused, lock)
}

pub(crate) fn drained(lock: &Lock) -> crate::event::NewEvent {
    telling::environment(crate::event::EventKind::EnvironmentDrained, lock)
}
