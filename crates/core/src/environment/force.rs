//! Force-claims an environment: takes the lock from its holder in one step, never passing through free.
//!
//! A takeover may wait for a grace period or for the running deployment. It then stands at the head of the queue, where
//! the holder can see it.

use super::claim::{Claimed, Opened, check_room, open};
use super::draft::{Draft, Moment};
use super::fence::Fence;
use super::limits::WAIT_S_DEFAULT;
use super::lock::Lock;
use super::moves::Ending;
use super::state::{EndReason, Holder, Takeover, Wish};
use super::{check_declared, check_fence, telling};
use crate::decision::{Refusal, Ruling};
use crate::event::EventKind;
use crate::id::TokenId;
use crate::name::Reason;

#[derive(Debug, Clone)]
pub struct Force {
    pub by: Holder,
    pub token: Option<TokenId>,
    pub wish: Wish,
    pub why: Option<Reason>,
    pub mode: Mode,
    /// `If-Match`: take over only from the holder with this fence.
    pub expected: Option<Fence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Now,
    AfterCurrentDeployment,
    Grace { seconds: i64 },
}

pub fn force(lock: &Lock, cmd: &Force, moment: &Moment) -> Ruling<Claimed> {
    let mut draft = Draft::begin(lock, moment);
    if let Err(refusal) = check_declared(&draft.lock).and_then(|()| check_fence(&draft.lock, cmd.expected)) {
        return draft.refuse(refusal);
    }
    let Some(target) = draft.lock.session.as_ref().map(|session| session.id) else {
        let id = draft.new_session_id();
        let opened = open(&mut draft, id, &cmd.by, &cmd.wish);
        return draft.finish(Ok(Claimed::Session(opened)));
    };
    let at = match cmd.mode {
        Mode::Grace { seconds } => Some(draft.now().plus_seconds(seconds)),
        Mode::AfterCurrentDeployment if draft.lock.is_deploying() => None,
        Mode::AfterCurrentDeployment | Mode::Now => {
            let opened = take(&mut draft, cmd);
            return draft.finish(Ok(Claimed::Session(opened)));
        }
    };
    if let Err(refusal) = check_room(&draft.lock).and_then(|()| check_first(&draft.lock)) {
        return draft.refuse(refusal);
    }
    // The ticket must outlive the moment of the takeover.
    let expires_at = at.unwrap_or(draft.now()).plus_seconds(WAIT_S_DEFAULT);
    let takeover = Takeover { target, at, why: why(cmd) };
    let ticket = draft.queue(cmd.by.clone(), cmd.token, cmd.wish.clone(), expires_at, Some(takeover), None);
    draft.finish(Ok(Claimed::Ticket(ticket)))
}

fn take(draft: &mut Draft<'_>, cmd: &Force) -> Opened {
    let successor = draft.new_session_id();
    let (reason, by) = (EndReason::Overridden, cmd.by.actor());
    let ending = Ending { reason, by, why: why(cmd), successor: Some(successor) };
    if let Some(session) = draft.end(ending) {
        let event = telling::ended(EventKind::SessionOverridden, &draft.lock, &session);
        draft.record(event);
    }
    open(draft, successor, &cmd.by, &cmd.wish)
}

/// Only one takeover may be pending: a second one could not say when it happens.
fn check_first(lock: &Lock) -> Result<(), Refusal> {
    let Some((ticket, takeover)) = lock.pending_takeover() else { return Ok(()) };
    let when = takeover.at.map_or("when its deployment has ended".to_owned(), |at| format!("at {at}"));
    let name = &ticket.holder.name;
    let text =
        format!("{name} will take it over {when}; join the queue, or take over with \"mode\": \"now\"");
    Err(Refusal::InvalidState(text))
}

/// Clients that only know `context` give the reason there.
fn why(cmd: &Force) -> Option<Reason> {
    cmd.why.clone().or_else(|| cmd.wish.context.clone())
}
