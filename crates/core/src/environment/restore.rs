//! Resets an environment after the database was restored from a backup.
//!
//! Sessions may have started and ended since the backup was made. Therefore the environment gets no holder, an empty
//! queue and unknown content. The raised epoch makes the next fence higher than all fences issued since the backup.

use super::draft::{DecisionContext, LockDraft};
use super::events;
use super::lock::Lock;
use super::state::{EnvironmentCondition, SessionEndReason, TicketCause};
use super::transitions::SessionEnding;
use crate::decision::RuleDecision;
use crate::event::{Actor, EventKind};

pub fn reset_after_restore(lock: &Lock, moment: &DecisionContext) -> RuleDecision<()> {
    // Timers are not applied first: they could grant a ticket that was already granted after the backup.
    let mut draft = LockDraft::from_stored(lock, moment);
    draft.as_system(|draft| {
        draft.cancel_tickets(TicketCause::Restored);
        let ending = SessionEnding {
            reason: SessionEndReason::Restored,
            by: Actor::system(),
            why: None,
            successor: None,
        };
        if let Some(session) = draft.end_session(ending) {
            let event = events::session_ended_event(EventKind::SessionReleased, &draft.lock, &session);
            draft.record(event);
        }
        draft.lock.environment.condition = EnvironmentCondition::Unknown;
        let event = events::environment_event(EventKind::EnvironmentRestored, &draft.lock)
            .with("epoch", moment.epoch);
        draft.record(event);
    });
    draft.finish(())
}
