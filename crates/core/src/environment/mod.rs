//! The lock on an environment: who holds it, who waits for it, and which deployments may run in it.
//!
//! Every rule is a function of a [`Lock`], a command and a [`DecisionContext`]. Each rule applies expired timers at its
//! start and again at its end (a session expires, the next ticket is granted), so the store never contains a free
//! environment with a valid ticket waiting.
//!
//! A timer only triggers a check; the stored record and the fence decide whether something has ended.

pub mod claim;
pub mod declare;
pub mod deploy;
mod draft;
pub mod eta;
mod events;
pub mod extend;
pub mod fence;
pub mod force;
pub mod hand_over;
pub mod lease;
pub mod limits;
mod lock;
pub mod order;
pub mod queue;
pub mod release;
pub mod restore;
mod settle;
mod state;
pub mod stop_agents;
mod transitions;

pub use draft::DecisionContext;
pub(crate) use draft::LockDraft;
pub use lock::Lock;
pub use settle::{due_at, ends_at, settle};
pub use state::{
    ClaimTerms, Environment, EnvironmentCondition, EnvironmentStatus, InactiveSession, LockAgenda,
    LockConflict, LockHolder, PendingTakeover, Session, SessionDrain, SessionEnd, SessionEndReason,
    SessionState, Ticket, TicketCause, TicketState,
};

use crate::decision::CommandRefusal;

/// The session that a command refers to.
#[derive(Debug, Clone)]
pub struct NamedSession<'a> {
    /// The session as it was loaded; it may have ended.
    pub session: &'a Session,
    /// From `If-Match`: proceed only if the active session still has this fence.
    pub expected: Option<fence::Fence>,
}

impl NamedSession<'_> {
    /// Returns the active session if it is the named one; otherwise a refusal that says how the named session ended.
    pub(crate) fn require_active<'d>(
        &self,
        draft: &'d mut LockDraft<'_>,
    ) -> Result<&'d mut Session, CommandRefusal> {
        check_fence(&draft.lock, self.expected)?;
        let current_fence = draft.lock.environment.fence;
        let ended = draft.session_after(self.session);
        match &mut draft.lock.session {
            Some(active) if active.id == self.session.id => Ok(active),
            _ => Err(CommandRefusal::SessionNotActive(Box::new(InactiveSession {
                session: ended,
                current_fence,
            }))),
        }
    }

    /// Like [`Self::require_active`], but also checks that `by` is the holder.
    pub(crate) fn require_holder<'d>(
        &self,
        by: &LockHolder,
        draft: &'d mut LockDraft<'_>,
    ) -> Result<&'d mut Session, CommandRefusal> {
        let session = self.require_active(draft)?;
        if !session.holder.is_same(by) {
            return Err(CommandRefusal::NotSessionHolder(session.holder.clone()));
        }
        Ok(session)
    }
}

/// Checks the fence from `If-Match`: the holder has not changed since the caller read it.
fn check_fence(lock: &Lock, expected: Option<fence::Fence>) -> Result<(), CommandRefusal> {
    let current = lock.session.as_ref().map(|session| session.fence);
    match expected {
        Some(_) if expected != current => Err(CommandRefusal::FenceMoved { current }),
        _ => Ok(()),
    }
}

/// Refuses new sessions in an environment that the definition no longer declares.
fn check_declared(lock: &Lock) -> Result<(), CommandRefusal> {
    if lock.environment.is_declared {
        return Ok(());
    }
    let text =
        "the definition no longer has this environment; the current holder keeps it until their session ends";
    Err(CommandRefusal::InvalidState(text.into()))
}

pub(crate) fn fence_refused_event(lock: &Lock) -> crate::event::NewEvent {
    events::environment_event(crate::event::EventKind::EnvironmentFenceRefused, lock)
}

pub(crate) fn drained_event(lock: &Lock) -> crate::event::NewEvent {
    events::environment_event(crate::event::EventKind::EnvironmentDrained, lock)
}
