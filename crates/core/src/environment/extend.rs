//! Extends a session.

use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::state::{LockHolder, Session};
use super::{NamedSession, events};
use crate::agent::AgentLimitReached;
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::event::EventKind;
use crate::time::Timestamp;

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
        Ok(session) if is_too_long(session, ttl_seconds, now) => {
            let seconds = session.holder.agent.as_ref().map_or(0, |agent| agent.session_seconds);
            let text =
                format!("a session of this agent ends {seconds} seconds after its claim at the latest");
            return draft
                .refuse(CommandRefusal::AgentLimit(AgentLimitReached { limit: "sessionSeconds", text }));
        }
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

/// Whether the extension goes beyond the limit of an agent's session.
fn is_too_long(session: &Session, ttl_seconds: Option<i64>, now: Timestamp) -> bool {
    let wanted = ttl_seconds.map(|seconds| now.plus_seconds(seconds));
    wanted.zip(session.length_limit()).is_some_and(|(at, limit)| at > limit)
}
