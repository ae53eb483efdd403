//! Restored: the records are an older copy, and what came after it is not known.
//!
//! Whoever held the environment may have released it since, and somebody else may have held it. So nobody holds it and
//! nobody waits for it any more, and what is in it is not known. The raised epoch puts the next fence above all that were
//! given in the time that is missing.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::moves::Ending;
use super::state::{Condition, EndReason, TicketCause};
use super::telling;
use crate::decision::Decision;
use crate::event::{Actor, EventKind};

pub fn restored(lock: &Lock, moment: &Moment) -> Decision<()> {
    // Nothing that time has made due comes first: nobody is granted what they may have had long ago.
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
