//! Resets an environment after the database was restored from a backup.
//!
//! Sessions may have ended and begun since the backup. So the environment has no holder and no queue, and its content
//! is unknown. The raised epoch puts the next fence above all that were issued in the missing time.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::moves::Ending;
use super::state::{Condition, EndReason, TicketCause};
use super::telling;
use crate::decision::Decision;
use crate::event::{Actor, EventKind};

pub fn restored(lock: &Lock, moment: &Moment) -> Decision<()> {
    // Timers are not applied: a grant now could be one that was already used.
    let mut draft = Draft::of(lock, moment);
    draft.as_system(|draft| {
        draft.dissolve(TicketCause::Restored);
        let ending = Ending { reason: EndReason::Restored, by: Actor::system(), why: None, successor: None };
        if let Some(session) = draft.end(ending) {
            let event = telling::ended(EventKind::SessionReleased, &draft.lock, &session);
            draft.record(event);
        }
        draft.lock.environment.condition = Condition::Unknown;
        let event =
            telling::environment(EventKind::EnvironmentRestored, &draft.lock).with("epoch", moment.epoch);
        draft.record(event);
    });
    draft.finish(())
}
