//! Checks changes of deployments: nothing starts while it is blocked, late reports are ignored, and no deployment
//! continues under the next holder.

use berth_core::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment, FailureCode};
use berth_core::environment::{EnvironmentCondition, Lock};

use super::moves::StepChanges;
use super::{EnvironmentMemory, LockCheckResult, ObservedStep, ensure};
use crate::locks::answer::LockAnswer;
use crate::locks::command::{LockRequest, ReportedOutcome};

pub(super) fn check(
    _: &EnvironmentMemory,
    before: &Lock,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    for new in moves.planned_deployments() {
        check_planned(new, before, moves)?;
    }
    for (old, new) in &moves.deployments {
        let was_running = old.is_some_and(|old| matches!(old.status, DeploymentState::Running));
        match &new.status {
            DeploymentState::Running if !was_running => check_started(new, seen)?,
            DeploymentState::Succeeded | DeploymentState::Failed(_) => check_reported(new, seen)?,
            DeploymentState::Cancelled(_) if old.is_some_and(|old| old.attempt().is_some()) => {
                check_confirmed(new, seen)?;
            }
            DeploymentState::Cancelled(_) | DeploymentState::Cancelling(_) => {
                check_cancelled(new, moves, seen)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// L8: a deployment has the fence of the session that requested it, which was active at the commit.
fn check_planned(new: &EnvironmentDeployment, before: &Lock, moves: &StepChanges<'_>) -> LockCheckResult {
    let DeploymentPurpose::Session(id) = new.target.purpose else { return Ok(()) };
    let mut sessions = before.session.iter().chain(moves.opened_sessions());
    let session = sessions.find(|it| it.id == id);
    ensure!(
        session.is_some_and(|it| it.fence == new.target.fence),
        "L8",
        "deployment {} bears fence {} which is not its session's",
        new.number,
        new.target.fence
    );
    Ok(())
}

/// L22: a deployment starts only when its runner requests it and nothing blocks it.
fn check_started(new: &EnvironmentDeployment, seen: &ObservedStep<'_>) -> LockCheckResult {
    let number = new.number;
    let is_granted = matches!(seen.step.request, LockRequest::Grant { .. })
        && seen.step.subject.deployment.as_ref().is_some_and(|it| it.id == new.id)
        && new.attempt().map(|it| &it.nonce) == seen.step.subject.nonce.as_ref();
    ensure!(is_granted, "E2", "deployment {number} started without its runner's asking");
    let blocked = obstacle(new, seen.after, seen.surroundings.is_paused);
    ensure!(blocked.is_none(), "L22", "deployment {number} started although {}", blocked.unwrap_or_default());
    Ok(())
}

/// Returns what prevents a deployment from starting: another deployment, an ended session, or a paused pipeline.
pub(super) fn obstacle(wanted: &EnvironmentDeployment, lock: &Lock, is_paused: bool) -> Option<&'static str> {
    let active = lock.session.as_ref();
    let is_own = |it: &EnvironmentDeployment| {
        active.is_some_and(|session| it.target.purpose == DeploymentPurpose::Session(session.id))
    };
    let is_current = |it: &EnvironmentDeployment| {
        is_own(it) && active.is_some_and(|session| session.fence == it.target.fence)
    };
    let others = || lock.deployments.iter().filter(|it| it.id != wanted.id);
    let is_live = |it: &EnvironmentDeployment| it.attempt().is_some();
    if is_paused {
        return Some("the pipeline is stopped");
    }
    if wanted.target.purpose == DeploymentPurpose::Reset {
        let any = others().any(|it| is_live(it) && !is_own(it));
        let own = others().any(|it| is_live(it) && is_own(it));
        return any.then_some("older work runs").or(own.then_some("the holder's work runs"));
    }
    if !is_current(wanted) {
        return Some("its session is not the active one");
    }
    if others().any(|it| is_own(it) && it.number < wanted.number) {
        return Some("an earlier one of its session has not ended");
    }
    if wanted.target.overrides_drain.is_some() {
        return None;
    }
    let old = others().any(|it| is_live(it) && it.target.purpose != DeploymentPurpose::Reset && !is_own(it));
    let reset = others().any(|it| it.target.purpose == DeploymentPurpose::Reset);
    old.then_some("work of an ended session may still run").or(reset.then_some("a reset is due"))
}

/// L10, E9: a report counts only if it is from the deployment's own attempt, and only while the deployment's session is
/// active.
fn check_reported(new: &EnvironmentDeployment, seen: &ObservedStep<'_>) -> LockCheckResult {
    let number = new.number;
    let LockRequest::Report { outcome, .. } = &seen.step.request else {
        ensure!(false, "L10", "deployment {number} ended without a report");
        return Ok(());
    };
    ensure!(is_from_attempt(new, seen), "L10", "a report of another attempt ended deployment {number}");
    let is_current = match new.target.purpose {
        DeploymentPurpose::Reset => true,
        DeploymentPurpose::Session(id) => {
            // Look at the session from before the step: a take-over that waited for this deployment may end the session
            // in the same step.
            let before = seen.step.before.as_ref().and_then(|it| it.session.as_ref());
            let ended_now = seen.step.decision.changes.iter().any(|change| ends_by_time(change, id));
            before.is_some_and(|it| it.id == id && it.fence == new.target.fence) && !ended_now
        }
    };
    ensure!(is_current, "L10", "deployment {number} of an ended session ended as {}", new.status.as_str());
    let fine = match (outcome, &new.status) {
        (ReportedOutcome::Succeeded, DeploymentState::Succeeded) => true,
        (ReportedOutcome::Failed, DeploymentState::Failed(failure)) => {
            failure.cause == FailureCode::StepFailed
        }
        (ReportedOutcome::Stopped | ReportedOutcome::Lost, DeploymentState::Failed(failure)) => {
            failure.cause == FailureCode::Lost
        }
        _ => false,
    };
    ensure!(fine, "L10", "{outcome:?} was reported and {} stored", new.status.as_str());
    Ok(())
}

fn ends_by_time(change: &berth_core::decision::RecordChange, id: berth_core::id::SessionId) -> bool {
    use berth_core::decision::{DomainRecord, RecordChange};
    use berth_core::environment::SessionEndReason;

    let RecordChange::Put(DomainRecord::Session(session)) = change else { return false };
    let reason = session.end.as_ref().map(|end| end.reason);
    session.id == id && matches!(reason, Some(SessionEndReason::Expired | SessionEndReason::Idle))
}

fn is_from_attempt(new: &EnvironmentDeployment, seen: &ObservedStep<'_>) -> bool {
    let subject = &seen.step.subject;
    let attempt = subject.deployment.as_ref().filter(|it| it.id == new.id).and_then(|it| it.attempt());
    attempt.is_some_and(|attempt| Some(&attempt.nonce) == subject.nonce.as_ref())
}

/// A deployment that was ordered to stop counts as stopped only after its attempt has reported that.
fn check_confirmed(new: &EnvironmentDeployment, seen: &ObservedStep<'_>) -> LockCheckResult {
    let fine = matches!(seen.step.request, LockRequest::Report { .. }) && is_from_attempt(new, seen);
    ensure!(fine, "L22", "deployment {} is stopped without a report", new.number);
    Ok(())
}

/// A cancellation has a cause: the end of the session, a request, a holder that overrides the drain during a reset, or
/// the deletion of the environment.
fn check_cancelled(
    new: &EnvironmentDeployment,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let ended = moves.ended_sessions().any(|it| DeploymentPurpose::Session(it.id) == new.target.purpose);
    let named = seen.step.subject.deployment.as_ref().is_some_and(|it| it.id == new.id);
    let asked = matches!(seen.step.request, LockRequest::Cancel { .. }) && named;
    let is_reset = new.target.purpose == DeploymentPurpose::Reset;
    let overridden =
        is_reset && matches!(seen.step.request, LockRequest::Deploy { override_drain: true, .. });
    let deleted = is_reset && matches!(seen.step.request, LockRequest::Delete { .. });
    ensure!(
        ended || asked || overridden || deleted,
        "L20",
        "deployment {} was cancelled without a cause",
        new.number
    );
    Ok(())
}

impl EnvironmentMemory {
    /// Tracks the condition of the environment and the deployed commit, from the changes of deployments alone.
    pub(super) fn update_content(&mut self, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) {
        let is_lost = matches!(seen.step.request, LockRequest::Report { outcome: ReportedOutcome::Lost, .. });
        for (old, new) in &moves.deployments {
            let has_run = old.is_some_and(|old| old.attempt().is_some());
            match &new.status {
                DeploymentState::Running if self.condition == EnvironmentCondition::Clean => {
                    self.condition = EnvironmentCondition::Dirty;
                }
                status if status.is_final() && has_run && is_lost => {
                    self.condition = EnvironmentCondition::Unknown;
                }
                DeploymentState::Succeeded => {
                    self.deployed_commit = Some(new.commit.clone());
                    let is_reset = new.target.purpose == DeploymentPurpose::Reset;
                    self.condition =
                        if is_reset { EnvironmentCondition::Clean } else { EnvironmentCondition::Dirty };
                }
                _ => {}
            }
        }
        let deployed = matches!(&seen.step.decision.answer, LockAnswer::Deployment(_));
        let overridden =
            deployed && matches!(seen.step.request, LockRequest::Deploy { override_drain: true, .. });
        let reset = moves
            .deployments
            .iter()
            .any(|(old, new)| old.is_some() && new.target.purpose == DeploymentPurpose::Reset);
        if overridden && reset && self.condition == EnvironmentCondition::Clean {
            self.condition = EnvironmentCondition::Dirty;
        }
    }
}
