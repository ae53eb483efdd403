//! Applies a runner's report about its attempt, and tells the runner whether to continue.

use super::deployment_event;
use crate::decision::RuleDecision;
use crate::deployment::{
    DeploymentPurpose, DeploymentState, EnvironmentDeployment, ExecutionFailure, FailureCode,
};
use crate::environment::fence::Fence;
use crate::environment::{DecisionContext, EnvironmentCondition, Lock, LockDraft};
use crate::event::EventKind;
use crate::id::DeploymentId;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentOutcome {
    Succeeded,
    Failed(ExecutionFailure),
    /// The attempt was cancelled, and none of its processes is running any more.
    Stopped,
    /// The runner is lost: its work has stopped, but the outcome is unknown.
    Lost,
}

/// What the runner must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerOrder {
    Continue,
    /// The runner must stop the work and then report that it has stopped.
    Cancel,
    /// The attempt is over.
    Stale,
}

/// The order that a runner gets in response to its heartbeat.
pub fn order(lock: &Lock, id: DeploymentId, nonce: &str) -> RunnerOrder {
    let Some(deployment) = lock.deployment(id) else { return RunnerOrder::Stale };
    if deployment.attempt().is_none_or(|attempt| attempt.nonce != nonce) {
        return RunnerOrder::Stale;
    }
    let may_continue = deployment.status == DeploymentState::Running && lock.is_current(deployment);
    if may_continue { RunnerOrder::Continue } else { RunnerOrder::Cancel }
}

/// Applies the outcome of an attempt. Returns `Stale` if the attempt was cancelled or has already ended. Whatever the
/// runner of a cancelled attempt reports, the deployment ends as cancelled.
pub fn report(
    lock: &Lock,
    id: DeploymentId,
    nonce: &str,
    outcome: &DeploymentOutcome,
    moment: &DecisionContext,
) -> RuleDecision<RunnerOrder> {
    let mut draft = LockDraft::begin(lock, moment);
    let Some(deployment) = draft.lock.deployment(id).cloned() else {
        return draft.finish(RunnerOrder::Stale);
    };
    if deployment.attempt().is_none_or(|attempt| attempt.nonce != nonce) {
        return draft.finish(RunnerOrder::Stale);
    }
    let is_cancelling = matches!(deployment.status, DeploymentState::Cancelling(_));
    let counts = !is_cancelling && draft.lock.is_current(&deployment);
    let order = if counts { RunnerOrder::Continue } else { RunnerOrder::Stale };
    let status = if counts {
        ended_status(&deployment, outcome)
    } else {
        cancelled_status(&mut draft, &deployment, outcome)
    };
    conclude(&mut draft, deployment, status, outcome);
    complete_drain(&mut draft);
    draft.finish(order)
}

/// Marks the content of the environment as unknown, because the outcome of an attempt is unknown.
pub fn mark_unknown(lock: &Lock, moment: &DecisionContext) -> RuleDecision<()> {
    let mut draft = LockDraft::begin(lock, moment);
    draft.lock.environment.condition = EnvironmentCondition::Unknown;
    draft.finish(())
}

/// Records that a runner refused an attempt with the fence `own`, because it has already executed work of another
/// session with the fence `known`. This means that the database has lost a session if `known` equals `own` or is higher
/// than every fence issued here. Returns `None` otherwise.
pub fn record_refused_fence(
    lock: &Lock,
    own: Fence,
    known: Fence,
    moment: &DecisionContext,
) -> Option<RuleDecision<()>> {
    let given = lock.environment.fence;
    if known <= given && known != own {
        return None;
    }
    let mut draft = LockDraft::begin(lock, moment);
    draft.lock.environment.condition = EnvironmentCondition::Unknown;
    let detail = format!(
        "a runner has executed work of another session with fence {known}, but the last fence issued here is {given}: the database may be an older copy. The runner refused to start. The state of the environment is unknown; check it, and take it over with force-claim"
    );
    let event = crate::environment::fence_refused_event(&draft.lock)
        .with("knownFence", known.number())
        .with("detail", detail);
    draft.record(event);
    Some(draft.finish(()))
}

fn ended_status(deployment: &EnvironmentDeployment, outcome: &DeploymentOutcome) -> DeploymentState {
    match (outcome, &deployment.status) {
        (DeploymentOutcome::Succeeded, _) => DeploymentState::Succeeded,
        (DeploymentOutcome::Failed(failure), _) => DeploymentState::Failed(failure.clone()),
        (DeploymentOutcome::Lost, _) => DeploymentState::Failed(lost_failure()),
        (DeploymentOutcome::Stopped, DeploymentState::Cancelling(cancel)) => {
            DeploymentState::Cancelled(cancel.clone())
        }
        (DeploymentOutcome::Stopped, _) => DeploymentState::Failed(ExecutionFailure {
            cause: FailureCode::Lost,
            detail: "it stopped before it finished".into(),
        }),
    }
}

fn lost_failure() -> ExecutionFailure {
    ExecutionFailure {
        cause: FailureCode::Lost,
        detail: "its runner was lost; the outcome is unknown".into(),
    }
}

/// The final state of a deployment that was cancelled before its runner reported an outcome. A success is recorded as
/// an event only.
fn cancelled_status(
    draft: &mut LockDraft<'_>,
    deployment: &EnvironmentDeployment,
    outcome: &DeploymentOutcome,
) -> DeploymentState {
    if *outcome == DeploymentOutcome::Succeeded {
        let event = deployment_event(EventKind::FinishedAfterCancel, &draft.lock.environment, deployment);
        draft.record(event);
    }
    match &deployment.status {
        DeploymentState::Cancelling(cancel) => DeploymentState::Cancelled(cancel.clone()),
        // Should not happen: a running deployment stops being current only when its session ends, which also cancels
        // it.
        _ => DeploymentState::Failed(lost_failure()),
    }
}

fn conclude(
    draft: &mut LockDraft<'_>,
    deployment: EnvironmentDeployment,
    status: DeploymentState,
    outcome: &DeploymentOutcome,
) {
    let now = draft.now();
    let (kind, detail) = match &status {
        DeploymentState::Succeeded => (EventKind::DeploymentSucceeded, None),
        DeploymentState::Failed(failure) => (EventKind::DeploymentFailed, Some(failure.clone())),
        _ => (EventKind::DeploymentCancelled, None),
    };
    let event = deployment_event(kind, &draft.lock.environment, &deployment)
        .with_some("cause", detail.as_ref().map(|failure| failure.cause.as_str()))
        .with_some("detail", detail.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let environment = &mut draft.lock.environment;
    match (&status, deployment.target.purpose) {
        _ if *outcome == DeploymentOutcome::Lost => environment.condition = EnvironmentCondition::Unknown,
        (DeploymentState::Succeeded, work) => {
            environment.deployed_commit = Some(deployment.commit.clone());
            let is_reset = work == DeploymentPurpose::Reset;
            environment.condition =
                if is_reset { EnvironmentCondition::Clean } else { EnvironmentCondition::Dirty };
        }
        _ => {}
    }
    if status == DeploymentState::Succeeded && deployment.target.purpose == DeploymentPurpose::Reset {
        let event = deployment_event(EventKind::EnvironmentReset, &draft.lock.environment, &deployment);
        draft.record(event);
    }
    draft.retire(EnvironmentDeployment { status, finished_at: Some(now), ..deployment });
}

/// Marks the session's drain as completed once the last attempt of the ended sessions has stopped.
fn complete_drain(draft: &mut LockDraft<'_>) {
    let now = draft.now();
    if draft.lock.is_contested() {
        return;
    }
    let drain = draft.lock.session.as_mut().and_then(|session| session.drain.as_mut());
    let waited = drain.filter(|drain| drain.completed_at.is_none());
    let holder_waited = waited.map(|drain| drain.completed_at = Some(now)).is_some();
    if holder_waited || draft.was_contested() {
        let event = crate::environment::drained_event(&draft.lock);
        draft.record(event);
    }
}
