//! Extends a session.

use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::state::{LockHolder, Session};
use super::{NamedSession, events};
use crate::decision::RefusableDecision;
use crate::event::EventKind;

/// Extends the session by the given length or, if none is given, by its original TTL, counted from now. Never shortens
/// a session; a session that does not expire stays that way.
pub fn extend(
    lock: &Lock,
    named: &NamedSession<'_>,
    by: &LockHolder,
    ttl_seconds: Option<i64>,
    moment: &DecisionContext,
) -> RefusableDecision<Session> {
    let mut draft = LockDraft::begin(lock, moment);
    let now = draft.now();
    match named.require_holder(by, &mut draft) {
        Err(refusal) => return draft.refuse(refusal),
        Ok(session) => {
            session.extensions += 1;
            session.extended_at = Some(now);
        }
    }
    draft.lock.extend_session(ttl_seconds, now);
    let Some(session) = draft.lock.session.clone() else { unreachable!("it was active a moment ago") };
    let event = events::session_event(EventKind::SessionExtended, &draft.lock, &session)
        .with("extension", session.extensions)
        .with_some("expiresAt", session.expires_at);
    draft.record(event);
    draft.finish(Ok(session))
}
