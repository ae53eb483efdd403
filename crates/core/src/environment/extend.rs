//! Extends a session.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::state::{Holder, Session};
use super::{Named, telling};
use crate::decision::Ruling;
use crate::event::EventKind;

/// Without a length, the session gets its original TTL again. Extending never shortens a session, and a session without
/// expiry stays without.
pub fn extend(
    lock: &Lock,
    named: &Named<'_>,
    by: &Holder,
    ttl_seconds: Option<i64>,
    moment: &Moment,
) -> Ruling<Session> {
    let mut draft = Draft::begin(lock, moment);
    let now = draft.now();
    match named.held_by(by, &mut draft) {
        Err(refusal) => return draft.refuse(refusal),
        Ok(session) => {
            session.extensions += 1;
            session.extended_at = Some(now);
        }
    }
    draft.lock.prolong(ttl_seconds, now);
    let Some(session) = draft.lock.session.clone() else { unreachable!("it was active a moment ago") };
    let event = telling::session(EventKind::SessionExtended, &draft.lock, &session)
        .with("extension", session.extensions)
        .with_some("expiresAt", session.expires_at);
    draft.record(event);
    draft.finish(Ok(session))
}
