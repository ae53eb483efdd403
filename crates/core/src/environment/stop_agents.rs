//! Ends what agents hold and wait for in an environment, because an admin stopped all agents.

use super::draft::{DecisionContext, LockDraft};
use super::lock::Lock;
use super::queue::cancel_ticket;
use super::state::{SessionEndReason, TicketCause};
use super::transitions::SessionEnding;
use super::{events, settle};
use crate::decision::RuleDecision;
use crate::event::{Actor, EventKind};
use crate::name::Reason;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedAgents {
    pub sessions: usize,
    pub tickets: usize,
}

pub fn stop_agents(
    lock: &Lock,
    by: Actor,
    why: Option<&Reason>,
    moment: &DecisionContext,
) -> RuleDecision<StoppedAgents> {
    let mut draft = LockDraft::from_stored(lock, moment);
    // The tickets go first, so that none of them is granted when the session ends.
    let waiting = draft.lock.tickets.iter().filter(|ticket| ticket.holder.agent.is_some());
    let waiting: Vec<_> = waiting.map(|ticket| ticket.id).collect();
    for id in &waiting {
        cancel_ticket(&mut draft, *id, TicketCause::AgentsStopped);
    }
    let is_held = draft.lock.session.as_ref().is_some_and(|session| session.holder.agent.is_some());
    if is_held {
        let reason = SessionEndReason::AgentsStopped;
        let ending = SessionEnding { reason, by, why: why.cloned(), successor: None };
        if let Some(session) = draft.end_session(ending) {
            let event = events::session_ended_event(EventKind::SessionReleased, &draft.lock, &session);
            draft.record(event);
        }
        settle::after_end(&mut draft);
    }
    draft.finish(StoppedAgents { sessions: usize::from(is_held), tickets: waiting.len() })
}
