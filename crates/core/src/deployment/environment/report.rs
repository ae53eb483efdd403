//! Applies what a runner reports about its attempt, and answers whether it may continue.

use super::deployment_event;
use crate::decision::Decision;
use crate::deployment::{Cause, DeploymentStatus, EnvironmentDeployment, Failure, Work};
use crate::environment::fence::Fence;
use crate::environment::{Condition, Draft, Lock, Moment};
use crate::event::EventKind;
use crate::id::DeploymentId;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed(Failure),
    /// Cancelled; nothing of it is running any more.
    Stopped,
    /// The runner is lost. The work has stopped, but its outcome is unknown.
    Lost,
}

/// What a runner has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Continue,
    /// Stop the work and report that it has stopped.
    Cancel,
    /// The attempt is over; the report was discarded.
    Stale,
}

/// The response to a heartbeat.
pub fn order(lock: &Lock, id: DeploymentId, nonce: &str) -> Order {
    let Some(deployment) = lock.deployment(id) else { return Order::Stale };
    if deployment.attempt().is_none_or(|attempt| attempt.nonce != nonce) {
        return Order::Stale;
    }
    let may_continue = deployment.status == DeploymentStatus::Running && lock.is_current(deployment);
    if may_continue { Order::Continue } else { Order::Cancel }
}

/// Returns `Stale` if nothing was stored. A cancelled attempt can only report that it has stopped.
pub fn report(
    lock: &Lock,
    id: DeploymentId,
    nonce: &str,
    outcome: &Outcome,
    moment: &Moment,
) -> Decision<Order> {
    let mut draft = Draft::begin(lock, moment);
    let Some(deployment) = draft.lock.deployment(id).cloned() else { return draft.finish(Order::Stale) };
    if deployment.attempt().is_none_or(|attempt| attempt.nonce != nonce) {
        return draft.finish(Order::Stale);
    }
    let is_cancelling = matches!(deployment.status, DeploymentStatus::Cancelling(_));
    let counts = !is_cancelling && draft.lock.is_current(&deployment);
    let order = if counts { Order::Continue } else { Order::Stale };
    let status = if counts { ended(&deployment, outcome) } else { stopped(&mut draft, &deployment, outcome) };
    conclude(&mut draft, deployment, status, outcome);
    drain(&mut draft);
    draft.finish(order)
}

/// Marks the content of the environment as unknown, because the outcome of an attempt is.
pub fn doubt(lock: &Lock, moment: &Moment) -> Decision<()> {
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.condition = Condition::Unknown;
    draft.finish(())
}

/// A runner refused an attempt with fence `own`, because it has executed work under the fence `known`, which the
/// database does not know or which belongs to another session: the database lost a holder. `None` if the fence is
/// known.
pub fn refused(lock: &Lock, own: Fence, known: Fence, moment: &Moment) -> Option<Decision<()>> {
    let given = lock.environment.fence;
    if known <= given && known != own {
        return None;
    }
    let mut draft = Draft::begin(lock, moment);
    draft.lock.environment.condition = Condition::Unknown;
    let detail = format!(
        "a runner has executed work of another session with fence {known}, but the last fence issued here is {given}: the database may be an older copy. The runner refused to start. The state of the environment is unknown; check it, and take it over with force-claim"
    );
    let event = crate::environment::fence_refused(&draft.lock)
        .with("knownFence", known.number())
        .with("detail", detail);
    draft.record(event);
    Some(draft.finish(()))
}

fn ended(deployment: &EnvironmentDeployment, outcome: &Outcome) -> DeploymentStatus {
    match (outcome, &deployment.status) {
        (Outcome::Succeeded, _) => DeploymentStatus::Succeeded,
        (Outcome::Failed(failure), _) => DeploymentStatus::Failed(failure.clone()),
        (Outcome::Lost, _) => DeploymentStatus::Failed(lost()),
        (Outcome::Stopped, DeploymentStatus::Cancelling(cancel)) => {
            DeploymentStatus::Cancelled(cancel.clone())
        }
        (Outcome::Stopped, _) => DeploymentStatus::Failed(Failure {
            cause: Cause::Lost,
            detail: "it stopped before it finished".into(),
        }),
    }
}

fn lost() -> Failure {
    Failure { cause: Cause::Lost, detail: "its runner was lost; the outcome is unknown".into() }
}

/// Ends a cancelled deployment. A success reported after the cancel comes too late.
fn stopped(draft: &mut Draft<'_>, deployment: &EnvironmentDeployment, outcome: &Outcome) -> DeploymentStatus {
    if *outcome == Outcome::Succeeded {
        let event = deployment_event(EventKind::FinishedAfterCancel, &draft.lock.environment, deployment);
        draft.record(event);
    }
    match &deployment.status {
        DeploymentStatus::Cancelling(cancel) => DeploymentStatus::Cancelled(cancel.clone()),
        // Running work is only outdated when its session ended, which cancels it.
        _ => DeploymentStatus::Failed(lost()),
    }
}

fn conclude(
    draft: &mut Draft<'_>,
    deployment: EnvironmentDeployment,
    status: DeploymentStatus,
    outcome: &Outcome,
) {
    let now = draft.now();
    let (kind, detail) = match &status {
        DeploymentStatus::Succeeded => (EventKind::DeploymentSucceeded, None),
        DeploymentStatus::Failed(failure) => (EventKind::DeploymentFailed, Some(failure.clone())),
        _ => (EventKind::DeploymentCancelled, None),
    };
    let event = deployment_event(kind, &draft.lock.environment, &deployment)
        .with_some("cause", detail.as_ref().map(|failure| failure.cause.as_str()))
        .with_some("detail", detail.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let environment = &mut draft.lock.environment;
    match (&status, deployment.target.work) {
        _ if *outcome == Outcome::Lost => environment.condition = Condition::Unknown,
        (DeploymentStatus::Succeeded, work) => {
            environment.deployed_commit = Some(deployment.commit.clone());
            let is_reset = work == Work::Reset;
            environment.condition = if is_reset { Condition::Clean } else { Condition::Dirty };
        }
        _ => {}
    }
    if status == DeploymentStatus::Succeeded && deployment.target.work == Work::Reset {
        let event = deployment_event(EventKind::EnvironmentReset, &draft.lock.environment, &deployment);
        draft.record(event);
    }
    draft.retire(EnvironmentDeployment { status, finished_at: Some(now), ..deployment });
}

/// Completes the drain when the last attempt of an ended session has stopped.
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
