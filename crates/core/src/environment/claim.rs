//! Claims an environment: the first caller gets the lock, later callers get a ticket in the queue if they ask for one.

use super::check_declared;
use super::draft::{Draft, Moment};
use super::limits::TICKETS_WAITING_MAX;
use super::lock::Lock;
use super::state::{Holder, Locked, Session, Ticket, Wish};
use crate::decision::{Refusal, Ruling};
use crate::id::{DeploymentId, SessionId, TicketGroupId, TokenId};

#[derive(Debug, Clone)]
pub struct Claim {
    pub by: Holder,
    pub token: Option<TokenId>,
    pub wish: Wish,
    /// How long to wait in the queue if another session holds the environment.
    pub wait_seconds: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    Session(Opened),
    Ticket(Ticket),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    pub session: Session,
    pub deployment: Option<DeploymentId>,
}

pub fn claim(lock: &Lock, cmd: &Claim, moment: &Moment) -> Ruling<Claimed> {
    claim_as(lock, cmd, None, moment)
}

/// Claims one of several environments: a ticket joins `group`, of which only one ticket is granted.
pub fn claim_in_group(lock: &Lock, cmd: &Claim, group: TicketGroupId, moment: &Moment) -> Ruling<Claimed> {
    claim_as(lock, cmd, Some(group), moment)
}

fn claim_as(lock: &Lock, cmd: &Claim, group: Option<TicketGroupId>, moment: &Moment) -> Ruling<Claimed> {
    let mut draft = Draft::begin(lock, moment);
    if let Err(refusal) = check_declared(&draft.lock) {
        return draft.refuse(refusal);
    }
    match (draft.lock.session.as_ref(), cmd.wait_seconds) {
        (None, _) => {
            let id = draft.new_session_id();
            let opened = open(&mut draft, id, &cmd.by, &cmd.wish);
            draft.finish(Ok(Claimed::Session(opened)))
        }
        (Some(session), None) => {
            let refusal = locked(&draft.lock, session, &cmd.by);
            draft.refuse(refusal)
        }
        (Some(_), Some(wait)) => match check_room(&draft.lock) {
            Err(refusal) => draft.refuse(refusal),
            Ok(()) => {
                let expires_at = draft.now().plus_seconds(wait);
                let ticket =
                    draft.queue(cmd.by.clone(), cmd.token, cmd.wish.clone(), expires_at, None, group);
                draft.finish(Ok(Claimed::Ticket(ticket)))
            }
        },
    }
}

pub(super) fn open(draft: &mut Draft<'_>, id: SessionId, by: &Holder, wish: &Wish) -> Opened {
    let deployment = draft.grant(id, by, wish);
    match draft.lock.session.clone() {
        Some(session) => Opened { session, deployment },
        None => unreachable!("a grant opens a session"),
    }
}

pub(super) fn check_room(lock: &Lock) -> Result<(), Refusal> {
    if lock.tickets.len() < TICKETS_WAITING_MAX {
        return Ok(());
    }
    let text = format!("the queue is full with {TICKETS_WAITING_MAX} tickets; try again later");
    Err(Refusal::InvalidState(text))
}

fn locked(lock: &Lock, session: &Session, by: &Holder) -> Refusal {
    Refusal::EnvironmentLocked(Box::new(Locked {
        session: session.clone(),
        queue_length: lock.tickets.len(),
        is_self: session.holder.id == by.id,
    }))
}
