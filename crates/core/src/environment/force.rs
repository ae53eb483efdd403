//! Force-claims an environment: ends the holder's session and starts the caller's in one decision, so that no other
//! caller can claim it in between.
//!
//! A takeover may wait for a grace period or for the running deployment to end. Until then its ticket is at the head of
//! the queue, where the holder can see it.

use super::claim::{ClaimOutcome, OpenedSession, check_queue_length, open_session};
use super::draft::{DecisionContext, LockDraft};
use super::fence::Fence;
use super::limits::WAIT_S_DEFAULT;
use super::lock::Lock;
use super::state::{ClaimTerms, LockHolder, PendingTakeover, SessionEndReason};
use super::transitions::SessionEnding;
use super::{check_declared, check_fence, events};
use crate::decision::{CommandRefusal, RefusableDecision};
use crate::event::EventKind;
use crate::id::TokenId;
use crate::name::Reason;

#[derive(Debug, Clone)]
pub struct ForceClaimCommand {
    pub by: LockHolder,
    pub token: Option<TokenId>,
    pub terms: ClaimTerms,
    pub why: Option<Reason>,
    pub mode: TakeoverMode,
    /// From `If-Match`: take over only if the holder's session has this fence.
    pub expected: Option<Fence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverMode {
    Now,
    AfterCurrentDeployment,
    Grace { seconds: i64 },
}

pub fn force_claim(
    lock: &Lock,
    cmd: &ForceClaimCommand,
    moment: &DecisionContext,
) -> RefusableDecision<ClaimOutcome> {
    let mut draft = LockDraft::begin(lock, moment);
    if let Err(refusal) = check_declared(&draft.lock).and_then(|()| check_fence(&draft.lock, cmd.expected)) {
        return draft.refuse(refusal);
    }
    let Some(target) = draft.lock.session.as_ref().map(|session| session.id) else {
        let id = draft.new_session_id();
        let opened = open_session(&mut draft, id, &cmd.by, &cmd.terms);
        return draft.finish(Ok(ClaimOutcome::Session(opened)));
    };
    let at = match cmd.mode {
        TakeoverMode::Grace { seconds } => Some(draft.now().plus_seconds(seconds)),
        TakeoverMode::AfterCurrentDeployment if draft.lock.is_deploying() => None,
        TakeoverMode::AfterCurrentDeployment | TakeoverMode::Now => {
            let opened = take_over(&mut draft, cmd);
            return draft.finish(Ok(ClaimOutcome::Session(opened)));
        }
    };
    if let Err(refusal) =
        check_queue_length(&draft.lock).and_then(|()| check_no_pending_takeover(&draft.lock))
    {
        return draft.refuse(refusal);
    }
    // The ticket must not expire before the takeover happens.
    let expires_at = at.unwrap_or(draft.now()).plus_seconds(WAIT_S_DEFAULT);
    let takeover = PendingTakeover { target, at, why: why(cmd) };
    let ticket =
        draft.queue_ticket(cmd.by.clone(), cmd.token, cmd.terms.clone(), expires_at, Some(takeover), None);
    draft.finish(Ok(ClaimOutcome::Ticket(ticket)))
}

fn take_over(draft: &mut LockDraft<'_>, cmd: &ForceClaimCommand) -> OpenedSession {
    let successor = draft.new_session_id();
    let (reason, by) = (SessionEndReason::Overridden, cmd.by.actor());
    let ending = SessionEnding { reason, by, why: why(cmd), successor: Some(successor) };
    if let Some(session) = draft.end_session(ending) {
        let event = events::session_ended_event(EventKind::SessionOverridden, &draft.lock, &session);
        draft.record(event);
    }
    open_session(draft, successor, &cmd.by, &cmd.terms)
}

/// Only one takeover may be pending, because it is unknown when a second one could happen.
fn check_no_pending_takeover(lock: &Lock) -> Result<(), CommandRefusal> {
    let Some((ticket, takeover)) = lock.pending_takeover() else { return Ok(()) };
    let when = takeover.at.map_or("when its deployment has ended".to_owned(), |at| format!("at {at}"));
    let name = &ticket.holder.name;
    let text =
        format!("{name} will take it over {when}; join the queue, or take over with \"mode\": \"now\"");
    Err(CommandRefusal::InvalidState(text))
}

/// The reason for the takeover. Clients that do not know the reason field give it in `context`.
fn why(cmd: &ForceClaimCommand) -> Option<Reason> {
    cmd.why.clone().or_else(|| cmd.terms.context.clone())
}
