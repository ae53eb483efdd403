//! Changes the queue: removes one ticket or all tickets of a claim for any of several environments, or changes a ticket.

use super::draft::{DecisionContext, LockDraft};
use super::events;
use super::lock::Lock;
use super::state::{LockHolder, Ticket, TicketCause, TicketState};
use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RefusableDecision, RuleDecision};
use crate::event::EventKind;
use crate::id::{TicketGroupId, TicketId};
use crate::name::CommitId;

/// Idempotent: a ticket that is no longer waiting is returned unchanged.
pub fn leave_queue(
    lock: &Lock,
    ticket: &Ticket,
    by: &LockHolder,
    may_force: bool,
    moment: &DecisionContext,
) -> RefusableDecision<Ticket> {
    let mut draft = LockDraft::begin(lock, moment);
    let is_waiting = draft.lock.position(ticket.id).is_some();
    if is_waiting && !ticket.holder.is_same(by) && !may_force {
        return draft.refuse(CommandRefusal::NotSessionHolder(ticket.holder.clone()));
    }
    let left = cancel_ticket(&mut draft, ticket.id, TicketCause::Requested);
    let answer = left.unwrap_or_else(|| draft.ticket_after(ticket));
    draft.finish(Ok(answer))
}

/// The ticket groups that a decision ends, and why: one of their tickets was granted, or its owner left the queue. The
/// caller withdraws the other tickets of the group in the same transaction. A ticket that expires, is revoked or loses
/// its environment does not end its group.
pub fn ended_groups(changes: &[RecordChange]) -> Vec<(TicketGroupId, TicketCause)> {
    let ended = changes.iter().filter_map(|RecordChange::Put(record)| {
        let DomainRecord::Ticket(ticket) = record else { return None };
        let cause = match &ticket.status {
            TicketState::Granted { .. } => TicketCause::GrantedElsewhere,
            TicketState::Cancelled { cause: TicketCause::Requested, .. } => TicketCause::Requested,
            TicketState::Waiting | TicketState::Cancelled { .. } | TicketState::Expired { .. } => {
                return None;
            }
        };
        Some((ticket.group?, cause))
    });
    ended.collect()
}

/// Removes a ticket of an ended group from its queue. Applies no timers, so no other ticket is granted.
pub fn withdraw_ticket(
    lock: &Lock,
    ticket: TicketId,
    cause: TicketCause,
    moment: &DecisionContext,
) -> RuleDecision<()> {
    let mut draft = LockDraft::from_stored(lock, moment);
    match cause {
        TicketCause::Requested => drop(cancel_ticket(&mut draft, ticket, cause)),
        _ => draft.as_system(|draft| drop(cancel_ticket(draft, ticket, cause))),
    }
    draft.finish_without_timers(())
}

pub(super) fn cancel_ticket(draft: &mut LockDraft<'_>, id: TicketId, cause: TicketCause) -> Option<Ticket> {
    let left = draft.remove_ticket(id, TicketState::Cancelled { at: draft.now(), cause })?;
    let event =
        events::ticket_event(EventKind::TicketCancelled, &draft.lock, &left).with("cause", cause.as_str());
    draft.record(event);
    Some(left)
}

/// Changes the commit of a waiting ticket, which keeps its position. A ticket that is no longer waiting is returned
/// unchanged.
pub fn change_commit(
    lock: &Lock,
    ticket: &Ticket,
    by: &LockHolder,
    commit: &CommitId,
    moment: &DecisionContext,
) -> RefusableDecision<Ticket> {
    let mut draft = LockDraft::begin(lock, moment);
    let waiting = draft.lock.tickets.iter_mut().find(|it| it.id == ticket.id);
    let Some(waiting) = waiting else {
        let answer = draft.ticket_after(ticket);
        return draft.finish(Ok(answer));
    };
    if !waiting.holder.is_same(by) {
        let refusal = CommandRefusal::NotSessionHolder(waiting.holder.clone());
        return draft.refuse(refusal);
    }
    let is_new = waiting.terms.commit.as_ref() != Some(commit);
    waiting.terms.commit = Some(commit.clone());
    let changed = waiting.clone();
    if is_new {
        let event = events::ticket_event(EventKind::TicketUpdated, &draft.lock, &changed);
        draft.record(event);
    }
    draft.finish(Ok(changed))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::environment::claim::{ClaimCommand, ClaimOutcome, claim};
    use crate::environment::declare::{DeclareCommand, declare};
    use crate::environment::fence::Fence;
    use crate::environment::release::{ReleaseCommand, release};
    use crate::environment::{ClaimTerms, NamedSession};
    use crate::event::ActorType;
    use crate::id::{EnvironmentId, PipelineId, UserId};
    use crate::name::EnvName;
    use crate::pipeline::model::{EnvironmentDefinition, ReleaseAction};
    use crate::time::Timestamp;

    fn moment(second: i64) -> DecisionContext {
        let seed = u8::try_from(second).unwrap();
        let now = Timestamp::from_micros(second * 1_000_000);
        DecisionContext { now, epoch: 1, lost_s: 45, entropy: [seed; 10] }
    }

    fn holder(seed: u8) -> LockHolder {
        let id = UserId::from_parts(Timestamp::from_micros(0), [seed; 10]);
        LockHolder {
            kind: ActorType::Service,
            id,
            name: format!("holder {seed}"),
            session_token: None,
            agent: None,
        }
    }

    fn free_lock() -> Lock {
        let start = Timestamp::from_micros(0);
        let declared = declare(
            DeclareCommand {
                id: EnvironmentId::from_parts(start, [1; 10]),
                pipeline: PipelineId::from_parts(start, [2; 10]),
                name: EnvName::parse("qa-1").unwrap(),
                configuration: EnvironmentDefinition {
                    triggers: Vec::new(),
                    release: Vec::new(),
                    on_release: ReleaseAction::None,
                    ttl: None,
                    labels: Vec::new(),
                    owner: None,
                    queue: crate::pipeline::model::QueuePolicy::default(),
                    vars: BTreeMap::new(),
                    skip: BTreeSet::new(),
                },
                definition_hash: "hash".into(),
                last_fence: Fence::default(),
            },
            start,
        );
        Lock {
            environment: declared.answer,
            session: None,
            tickets: Vec::new(),
            deployments: Vec::new(),
            is_paused: false,
            tracked: None,
        }
    }

    fn claim_as(lock: &Lock, seed: u8, second: i64) -> (Lock, ClaimOutcome) {
        let terms = ClaimTerms {
            commit: CommitId::parse("aaaaaaa").ok(),
            deploy: true,
            is_untrusted: seed == 2,
            ..ClaimTerms::default()
        };
        let cmd = ClaimCommand { by: holder(seed), token: None, terms, wait_seconds: Some(600) };
        let decision = claim(lock, &cmd, &moment(second));
        (lock.after(&decision), decision.answer.unwrap())
    }

    #[test]
    fn waiting_ticket_with_changed_commit_keeps_position_and_trust_and_deploys_the_new_commit() {
        let (lock, first) = claim_as(&free_lock(), 1, 1);
        let (lock, second) = claim_as(&lock, 2, 2);
        let (lock, _) = claim_as(&lock, 3, 3);
        let (ClaimOutcome::Session(first), ClaimOutcome::Ticket(ticket)) = (first, second) else {
            panic!("the second claim has to wait");
        };
        let commit = CommitId::parse("bbbbbbb").unwrap();
        let refused = change_commit(&lock, &ticket, &holder(3), &commit, &moment(4));
        assert!(matches!(refused.answer, Err(CommandRefusal::NotSessionHolder(_))));
        let changed = change_commit(&lock, &ticket, &holder(2), &commit, &moment(4));
        assert_eq!(changed.events.len(), 1);
        let lock = lock.after(&changed);
        assert_eq!(lock.position(ticket.id), Some(1));
        let again = change_commit(&lock, &ticket, &holder(2), &commit, &moment(5));
        assert!(again.changes.is_empty() && again.events.is_empty());
        let named = NamedSession { session: &first.session, expected: None };
        let cmd = ReleaseCommand { by: holder(1), may_force: false };
        let lock = lock.after(&release(&lock, &named, &cmd, &moment(6)));
        let deployment = lock.deployments.last().unwrap();
        assert_eq!((&deployment.commit, deployment.target.is_untrusted), (&commit, true));
        assert_eq!(lock.session.as_ref().unwrap().holder, holder(2));
        let late =
            change_commit(&lock, &ticket, &holder(2), &CommitId::parse("ccccccc").unwrap(), &moment(7));
        assert!(late.changes.is_empty(), "it was granted");
    }
}
