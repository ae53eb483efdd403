//! Hands a session over to another member: the holder's session ends and a new one with a higher fence starts, in one
//! decision.

use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::state::{ClaimTerms, LockHolder, Session, SessionEndReason};
use super::transitions::SessionEnding;
use super::{NamedSession, check_declared, events};
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::event::EventKind;

pub fn hand_over(
    lock: &Lock,
    named: &NamedSession<'_>,
    by: &LockHolder,
    to: &LockHolder,
    moment: &DecisionContext,
) -> RefusableDecision<Session> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_declared(&draft.lock) {
        return draft.refuse(refusal);
    }
    let now = draft.now();
    let mut to = to.clone();
    let (wish, latest_end) = match named.require_holder(by, &mut draft) {
        Err(refusal) => return draft.refuse(refusal),
        Ok(session) if session.holder.is_same(&to) => {
            let text = "you hold this session already; extend it, or name another member".to_owned();
            return draft.refuse(CommandRefusal::InvalidState(text));
        }
        // The new session takes over the commit, context and TTL of the old one, but not its deployments. The contact
        // was named for the old holder.
        Ok(session) => {
            let terms = ClaimTerms {
                commit: session.commit.clone(),
                context: session.context.clone(),
                contact: None,
                ttl_seconds: session.ttl_seconds,
                // The new holder has not agreed to send heartbeats.
                lease_seconds: None,
                deploy: false,
                is_untrusted: false,
            };
            // Agents cannot exceed the limit of a session by handing it to each other.
            let latest_end = match (&mut to.agent, session.length_limit()) {
                (Some(agent), Some(limit)) => {
                    agent.session_seconds = agent.session_seconds.min(limit.seconds_since(now).max(1));
                    session.expires_at
                }
                _ => None,
            };
            (terms, latest_end)
        }
    };
    // A pending takeover targets the current session, so a handover would evade it.
    if let Some((ticket, _)) = draft.lock.pending_takeover() {
        let text = format!(
            "{} has announced a takeover; it cannot be handed over to another member",
            ticket.holder.name
        );
        return draft.refuse(CommandRefusal::InvalidState(text));
    }
    let successor = draft.new_session_id();
    let ending = SessionEnding {
        reason: SessionEndReason::HandedOver,
        by: by.actor(),
        why: None,
        successor: Some(successor),
    };
    let ended = draft.end_session(ending);
    let new_fence = draft.open_session(successor, to.clone(), &wish);
    if let (Some(session), Some(end)) = (&mut draft.lock.session, latest_end) {
        session.expires_at = session.expires_at.map(|at| at.min(end));
    }
    if let Some(ended) = ended {
        let event = events::session_ended_event(EventKind::SessionHandedOver, &draft.lock, &ended)
            .with("to", to.name.clone())
            .with("toId", to.id.to_string())
            .with("newFence", new_fence.number());
        draft.record(event);
    }
    match draft.lock.session.clone() {
        Some(session) => draft.finish(Ok(session)),
        None => unreachable!("a session was opened"),
    }
}
