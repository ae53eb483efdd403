//! Renews the lease of a session, which is what a heartbeat does.

use super::NamedSession;
use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::state::{LockHolder, Session};
use crate::decision::{CommandRefusal, RefusableDecision};

/// Returns the session with a lease that starts now. Heartbeats are frequent, so the renewed lease is no part of the
/// decision's changes: the caller writes it to the session, without an event and without a new version of the
/// environment.
pub fn renew_lease(
    lock: &Lock,
    named: &NamedSession<'_>,
    by: &LockHolder,
    moment: &DecisionContext,
) -> RefusableDecision<Session> {
    let mut draft = LockDraft::begin(lock, moment);
    let now = draft.now();
    let mut session = match named.require_holder(by, &mut draft) {
        Err(refusal) => return draft.refuse(refusal),
        Ok(session) => session.clone(),
    };
    if session.lease_seconds.is_none() {
        let text = "the session has no lease, so it needs no heartbeats; claim with leaseSeconds to get one";
        return draft.refuse(CommandRefusal::InvalidState(text.into()));
    }
    session.renew_lease(now);
    draft.finish(Ok(session))
}
