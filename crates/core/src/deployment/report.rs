//! Report: what a runner says about its attempt, and what it is told in return.

use super::state::{Cause, Deployment, Failure, Status, Work};
use super::telling;
use crate::decision::Decision;
use crate::environment::fence::Fence;
use crate::environment::{Condition, Draft, Lock, Moment};
use crate::event::EventKind;
use crate::id::DeploymentId;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed(Failure),
    /// It was told to stop and has; nothing of it runs any more.
    Stopped,
    /// Its runner is gone. Whatever it was doing has stopped, and nobody knows how far it came.
    Lost,
}

/// What a runner shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Continue,
    /// Stop the work and report that it has stopped.
    Cancel,
    /// The attempt is over; nothing that was said is kept.
    Stale,
}

/// The answer to a sign of life.
pub fn order(lock: &Lock, id: DeploymentId, nonce: &str) -> Order {
    let Some(deployment) = lock.deployment(id) else { return Order::Stale };
    match &deployment.status {
        Status::Running(attempt) if attempt.nonce == nonce && lock.is_current(deployment) => Order::Continue,
        Status::Running(attempt) | Status::Cancelling { attempt, .. } if attempt.nonce == nonce => {
            Order::Cancel
        }
        _ => Order::Stale,
    }
}

/// `Stale`: nothing was stored. An attempt that was told to stop is believed that it has, and nothing else.
pub fn report(
    lock: &Lock,
    id: DeploymentId,
    nonce: &str,
    outcome: &Outcome,
    moment: &Moment,
) -> Decision<Order> {
    let mut draft = Draft::begin(lock, moment);
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return draft.finish(Order::Stale) };
    if deployment.status.attempt().is_none_or(|attempt| attempt.nonce != nonce) {
        return draft.finish(Order::Stale);
    }
    let is_cancelling = matches!(deployment.status, Status::Cancelling { .. });
    let counts = !is_cancelling && draft.lock.is_current(&deployment);
    let order = if counts { Order::Continue } else { Order::Stale };
    let status = if counts { ended(&deployment, outcome) } else { stopped(&mut draft, &deployment, outcome) };
    conclude(&mut draft, deployment, status, outcome);
    drain(&mut draft);
    draft.finish(order)
}

/// Nobody knows how far an attempt came: until somebody says, nobody knows what is in the environment.
pub fn doubt(lock: &Lock, moment: &Moment) -> Decision<()> {
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.condition = Condition::Unknown;
    draft.finish(())
}

/// A runner has refused an attempt with fence `own`: it has executed work under a fence of this environment that was never
/// given, as far as is known here, or under `own` itself, of another session. There was a holder whom the records have
/// lost. `None`: it is known.
pub fn refused(lock: &Lock, own: Fence, known: Fence, moment: &Moment) -> Option<Decision<()>> {
    let given = lock.environment.fence;
    if known <= given && known != own {
        return None;
    }
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.condition = Condition::Unknown;
    let detail = format!(
        "a runner has executed work of another holder with fence {known}, and {given} is the last that was given here: the database \
         may be an older copy. The runner has refused to begin. Nobody knows what is in the environment; look at it, and \
         take it over with a force claim"
    );
    let event = crate::environment::fence_refused(&draft.lock)
        .with("knownFence", known.number())
        .with("detail", detail);
    draft.record(event);
    Some(draft.finish(()))
}

fn ended(deployment: &Deployment, outcome: &Outcome) -> Status {
    match (outcome, &deployment.status) {
        (Outcome::Succeeded, _) => Status::Succeeded,
        (Outcome::Failed(failure), _) => Status::Failed(failure.clone()),
        (Outcome::Lost, _) => Status::Failed(lost()),
        (Outcome::Stopped, Status::Cancelling { cancel, .. }) => Status::Cancelled(cancel.clone()),
        (Outcome::Stopped, _) => {
            Status::Failed(Failure { cause: Cause::Lost, detail: "it stopped before its end".into() })
        }
    }
}

fn lost() -> Failure {
    Failure { cause: Cause::Lost, detail: "its runner went away; how far it came is not known".into() }
}

/// It had been told to stop: what it says otherwise comes too late.
fn stopped(draft: &mut Draft<'_>, deployment: &Deployment, outcome: &Outcome) -> Status {
    if *outcome == Outcome::Succeeded {
        let event = telling(EventKind::FinishedAfterCancel, &draft.lock.environment, deployment);
        draft.record(event);
    }
    match &deployment.status {
        Status::Cancelling { cancel, .. } => Status::Cancelled(cancel.clone()),
        // Only a session that ended leaves running work that is not current, and its end cancels it.
        _ => Status::Failed(lost()),
    }
}

fn conclude(draft: &mut Draft<'_>, deployment: Deployment, status: Status, outcome: &Outcome) {
    let now = draft.now();
    let (kind, detail) = match &status {
        Status::Succeeded => (EventKind::DeploymentSucceeded, None),
        Status::Failed(failure) => (EventKind::DeploymentFailed, Some(failure.clone())),
        _ => (EventKind::DeploymentCancelled, None),
    };
    let event = telling(kind, &draft.lock.environment, &deployment)
        .with_some("cause", detail.as_ref().map(|failure| failure.cause.as_str()))
        .with_some("detail", detail.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let environment = &mut draft.lock.environment;
    match (&status, deployment.work) {
        _ if *outcome == Outcome::Lost => environment.condition = Condition::Unknown,
        (Status::Succeeded, work) => {
            environment.deployed_commit = Some(deployment.commit.clone());
            let is_reset = work == Work::Reset;
            environment.condition = if is_reset { Condition::Clean } else { Condition::Dirty };
        }
        _ => {}
    }
    if status == Status::Succeeded && deployment.work == Work::Reset {
        let event = telling(EventKind::EnvironmentReset, &draft.lock.environment, &deployment);
        draft.record(event);
    }
    draft.retire(Deployment { status, finished_at: Some(now), ..deployment });
}

/// The last attempt of an ended session has stopped: whoever holds the environment, or will, may begin.
fn drain(draft: &mut Draft<'_>) {
    let now = draft.now();
    if draft.lock.is_contested() {
        return;
    }
    let drain = draft.lock.session.as_mut().and_then(|session| session.drain.as_mut());
    let waited = drain.filter(|drain| drain.completed_at.is_none());
    let somebody_waited = waited.map(|drain| drain.completed_at = Some(now)).is_some();
    if somebody_waited || draft.was_contested() {
        let event = crate::environment::drained(&draft.lock);
        draft.record(event);
    }
}
