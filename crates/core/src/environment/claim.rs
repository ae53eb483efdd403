//! Claims an environment: the first caller gets the session; later callers get a ticket in the queue if they asked to
//! wait.

use super::check_declared;
use super::draft::{DecisionContext, LockDraft};
use super::limits::TICKETS_WAITING_MAX;
use super::lock::Lock;
use super::state::{ClaimTerms, LockConflict, LockHolder, Session, Ticket};
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::id::{DeploymentId, SessionId, TicketGroupId, TokenId};

#[derive(Debug, Clone)]
pub struct ClaimCommand {
    pub by: LockHolder,
    pub token: Option<TokenId>,
    pub terms: ClaimTerms,
    /// How long the caller is willing to wait in the queue if the environment is held; `None` means not at all.
    pub wait_seconds: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClaimOutcome {
    Session(OpenedSession),
    Ticket(Ticket),
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenedSession {
    pub session: Session,
    pub deployment: Option<DeploymentId>,
}

pub fn claim(lock: &Lock, cmd: &ClaimCommand, moment: &DecisionContext) -> RefusableDecision<ClaimOutcome> {
    claim_as(lock, cmd, None, moment)
}

/// Claims an environment as part of a claim for any of several environments. A ticket joins `group`; only one ticket of
/// the group is granted.
pub fn claim_in_group(
    lock: &Lock,
    cmd: &ClaimCommand,
    group: TicketGroupId,
    moment: &DecisionContext,
) -> RefusableDecision<ClaimOutcome> {
    claim_as(lock, cmd, Some(group), moment)
}

fn claim_as(
    lock: &Lock,
    cmd: &ClaimCommand,
    group: Option<TicketGroupId>,
    moment: &DecisionContext,
) -> RefusableDecision<ClaimOutcome> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_declared(&draft.lock) {
        return draft.refuse(refusal);
    }
    match (draft.lock.session.as_ref(), cmd.wait_seconds) {
        (None, _) => {
            let id = draft.new_session_id();
            let opened = open_session(&mut draft, id, &cmd.by, &cmd.terms);
            draft.finish(Ok(ClaimOutcome::Session(opened)))
        }
        (Some(session), None) => {
            let refusal = locked_refusal(&draft.lock, session, &cmd.by);
            draft.refuse(refusal)
        }
        (Some(_), Some(wait)) => match check_queue_length(&draft.lock) {
            Err(refusal) => draft.refuse(refusal),
            Ok(()) => {
                let expires_at = draft.now().plus_seconds(wait);
                let ticket =
                    draft.queue_ticket(cmd.by.clone(), cmd.token, cmd.terms.clone(), expires_at, None, group);
                draft.finish(Ok(ClaimOutcome::Ticket(ticket)))
            }
        },
    }
}

pub(super) fn open_session(
    draft: &mut LockDraft<'_>,
    id: SessionId,
    by: &LockHolder,
    wish: &ClaimTerms,
) -> OpenedSession {
    let deployment = draft.grant_session(id, by, wish);
    match draft.lock.session.clone() {
        Some(session) => OpenedSession { session, deployment },
        None => unreachable!("a grant opens a session"),
    }
}

pub(super) fn check_queue_length(lock: &Lock) -> Result<(), CommandRefusal> {
    if lock.tickets.len() < TICKETS_WAITING_MAX {
        return Ok(());
    }
    let text = format!("the queue is full with {TICKETS_WAITING_MAX} tickets; try again later");
    Err(CommandRefusal::InvalidState(text))
}

fn locked_refusal(lock: &Lock, session: &Session, by: &LockHolder) -> CommandRefusal {
    CommandRefusal::EnvironmentLocked(Box::new(LockConflict {
        session: session.clone(),
        queue_length: lock.tickets.len(),
        is_self: session.holder.is_same(by),
    }))
}
