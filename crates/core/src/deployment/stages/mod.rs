//! State transitions of a deployment through the stages of its pipeline. Its status follows the status of its run.

pub mod stage;

use std::collections::BTreeSet;

use crate::decision::{Change, Decision, Record};
use crate::deployment::run::RunStatus;
use crate::deployment::{Cancel, DeploymentStatus, Failure, StagesDeployment, StagesTarget, Trigger};
use crate::event::{Actor, EventKind, NewEvent, Subject};
use crate::id::{DeploymentId, UserId};
use crate::name::Reason;
use crate::time::Timestamp;

/// Unfinished deployments of a pipeline. Beyond it a push supersedes and an API request is refused.
pub const UNFINISHED_MAX: usize = 100;

pub fn start(deployment: StagesDeployment) -> Decision<StagesDeployment> {
    let event = deployment_event(EventKind::DeploymentQueued, &deployment)
        .with("trigger", deployment.target.trigger.as_str())
        .with_some("reason", deployment.reason.as_ref());
    let bypass = bypass_used(&deployment);
    let mut decision = put(deployment, Some(event));
    decision.events.extend(bypass);
    decision
}

fn bypass_used(deployment: &StagesDeployment) -> Option<NewEvent> {
    let bypass = deployment.target.bypass.as_ref()?;
    Some(deployment_event(EventKind::BypassUsed, deployment).with("reason", bypass.reason.as_str()))
}

/// Records who retried a stage: they count as starters and may not approve where self-approval is off. The stage
/// appends the event.
pub fn retried(deployment: &StagesDeployment, by: BTreeSet<UserId>) -> Decision<StagesDeployment> {
    let mut next = deployment.clone();
    next.target.retried_by.extend(by);
    let is_new = next.target.retried_by != deployment.target.retried_by;
    let mut decision = if is_new { put(next, None) } else { Decision::calm(next) };
    // A retry uses the bypass again.
    decision.events.extend(bypass_used(deployment));
    decision
}

/// Rolls a stage back to an earlier deployment.
#[derive(Debug, Clone)]
pub struct RollBack<'a> {
    pub id: DeploymentId,
    pub number: i64,
    pub stage: &'a str,
    pub of: DeploymentId,
    /// The deployment whose commit and definition are used again.
    pub to: &'a StagesDeployment,
    pub by: Actor,
    pub reason: Option<Reason>,
}

pub fn roll_back(cmd: RollBack<'_>, now: Timestamp) -> Decision<StagesDeployment> {
    let (stage, of, to, by) = (cmd.stage.to_owned(), cmd.of, cmd.to, cmd.by);
    let mut decision = start(StagesDeployment {
        id: cmd.id,
        number: cmd.number,
        pipeline: to.pipeline,
        definition_hash: to.definition_hash.clone(),
        commit: to.commit.clone(),
        resolved_commit: to.resolved_commit.clone(),
        reason: cmd.reason,
        requested_by: by.clone(),
        status: DeploymentStatus::Queued,
        created_at: now,
        started_at: None,
        finished_at: None,
        target: StagesTarget {
            trigger: Trigger::Rollback { stage, of, to: to.id },
            retried_by: BTreeSet::new(),
            bypass: None,
        },
    });
    let deployment = &decision.answer;
    let event = deployment_event(EventKind::DeploymentRolledBack, deployment)
        .about(Subject::new("deployment", of, None))
        .with("stage", cmd.stage)
        .with("of", of.to_string())
        .with("to", to.id.to_string())
        .with_some("reason", deployment.reason.as_ref());
    decision.events.push(event);
    for event in &mut decision.events {
        event.by = Some(by.clone());
    }
    decision
}

/// Starts a queued deployment whose plan is ready. No change if it was cancelled or superseded in the meantime.
pub fn begin(
    deployment: &StagesDeployment,
    resolved_commit: Option<String>,
    now: Timestamp,
) -> Decision<StagesDeployment> {
    if deployment.status != DeploymentStatus::Queued {
        return Decision::calm(deployment.clone());
    }
    let begun = StagesDeployment {
        status: DeploymentStatus::Running,
        resolved_commit,
        started_at: Some(now),
        ..deployment.clone()
    };
    let event = deployment_event(EventKind::DeploymentStarted, &begun);
    put(begun, Some(event))
}

/// Copies the status of the run, including from failed back to running after a retry. Only final and cancelling states
/// append an event; the stages append the others.
pub fn follow(deployment: &StagesDeployment, run: RunStatus, now: Timestamp) -> Decision<StagesDeployment> {
    let (status, kind) = match run {
        RunStatus::Running => (DeploymentStatus::Running, None),
        RunStatus::Waiting => (DeploymentStatus::Waiting, None),
        RunStatus::Cancelling(cancel) => {
            (DeploymentStatus::Cancelling(cancel), Some(EventKind::DeploymentCancelling))
        }
        RunStatus::Succeeded => (DeploymentStatus::Succeeded, Some(EventKind::DeploymentSucceeded)),
        RunStatus::Failed(failure) => (DeploymentStatus::Failed(failure), Some(EventKind::DeploymentFailed)),
        RunStatus::Cancelled(cancel) => {
            (DeploymentStatus::Cancelled(cancel), Some(EventKind::DeploymentCancelled))
        }
    };
    // A superseded deployment has a cancelled run but stays superseded.
    let comes_back = matches!(deployment.status, DeploymentStatus::Failed(_));
    if deployment.status.is_final() && !comes_back {
        return Decision::calm(deployment.clone());
    }
    turn(deployment, status, kind, now)
}

/// Fails a deployment that cannot begin: its sources are missing or its definition cannot run.
pub fn fail(deployment: &StagesDeployment, failure: Failure, now: Timestamp) -> Decision<StagesDeployment> {
    end(deployment, DeploymentStatus::Failed(failure), EventKind::DeploymentFailed, now)
}

/// Cancels a deployment that has not begun.
pub fn cancel(deployment: &StagesDeployment, cancel: Cancel, now: Timestamp) -> Decision<StagesDeployment> {
    end(deployment, DeploymentStatus::Cancelled(cancel), EventKind::DeploymentCancelled, now)
}

/// Replaces the deployment with a newer one.
pub fn supersede(
    deployment: &StagesDeployment,
    by: DeploymentId,
    now: Timestamp,
) -> Decision<StagesDeployment> {
    end(deployment, DeploymentStatus::Superseded { by }, EventKind::DeploymentSuperseded, now)
}

/// No change if the deployment has already ended.
fn end(
    deployment: &StagesDeployment,
    status: DeploymentStatus,
    kind: EventKind,
    now: Timestamp,
) -> Decision<StagesDeployment> {
    if deployment.status.is_final() {
        return Decision::calm(deployment.clone());
    }
    turn(deployment, status, Some(kind), now)
}

fn turn(
    deployment: &StagesDeployment,
    status: DeploymentStatus,
    kind: Option<EventKind>,
    now: Timestamp,
) -> Decision<StagesDeployment> {
    if deployment.status == status {
        return Decision::calm(deployment.clone());
    }
    let finished_at = status.is_final().then_some(now);
    let next = StagesDeployment { status, finished_at, ..deployment.clone() };
    let event = kind.map(|kind| match &next.status {
        DeploymentStatus::Failed(failure) => deployment_event(kind, &next)
            .with("cause", failure.cause.as_str())
            .with("detail", failure.detail.as_str()),
        DeploymentStatus::Cancelled(cancel) | DeploymentStatus::Cancelling(cancel) => {
            deployment_event(kind, &next)
                .with("cause", cancel.cause.as_str())
                .with_some("reason", cancel.reason.as_ref())
        }
        DeploymentStatus::Superseded { by } => {
            deployment_event(kind, &next).with("supersededBy", by.to_string())
        }
        _ => deployment_event(kind, &next),
    });
    put(next, event)
}

fn put(deployment: StagesDeployment, event: Option<NewEvent>) -> Decision<StagesDeployment> {
    Decision {
        changes: vec![Change::Put(Record::StagesDeployment(Box::new(deployment.clone())))],
        events: event.into_iter().collect(),
        effects: Vec::new(),
        answer: deployment,
    }
}

fn deployment_event(kind: EventKind, deployment: &StagesDeployment) -> NewEvent {
    NewEvent::new(kind, Subject::new("deployment", deployment.id, None))
        .about(Subject::new("pipeline", deployment.pipeline, None))
        .with("commitId", deployment.commit.as_str())
        .with("number", deployment.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{CancelCause, Cause};
    use crate::id::PipelineId;
    use crate::name::CommitId;

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn queued() -> StagesDeployment {
        StagesDeployment {
            id: DeploymentId::from_parts(NOW, [1; 10]),
            number: 1,
            pipeline: PipelineId::from_parts(NOW, [2; 10]),
            definition_hash: "hash".into(),
            commit: CommitId::parse("c1").expect("a commit"),
            resolved_commit: None,
            reason: None,
            requested_by: Actor::system(),
            status: DeploymentStatus::Queued,
            created_at: NOW,
            started_at: None,
            finished_at: None,
            target: StagesTarget { trigger: Trigger::Api, retried_by: BTreeSet::new(), bypass: None },
        }
    }

    fn stopped() -> Cancel {
        Cancel { by: Actor::system(), cause: CancelCause::Requested, reason: None }
    }

    fn failure() -> Failure {
        Failure { cause: Cause::StepFailed, detail: "exit code 1".into() }
    }

    fn newer() -> DeploymentId {
        DeploymentId::from_parts(NOW, [3; 10])
    }

    fn running() -> StagesDeployment {
        begin(&queued(), None, NOW).answer
    }

    #[track_caller]
    fn assert_calm(deployment: &StagesDeployment, decision: &Decision<StagesDeployment>) {
        assert_eq!(decision, &Decision::calm(deployment.clone()));
    }

    #[test]
    fn what_ended_before_it_began_does_not_begin() {
        for ended in [cancel(&queued(), stopped(), NOW).answer, supersede(&queued(), newer(), NOW).answer] {
            assert_calm(&ended, &begin(&ended, None, NOW));
        }
        assert_calm(&running(), &begin(&running(), None, NOW));
    }

    #[test]
    fn the_cancelled_run_of_a_superseded_deployment_does_not_change_how_it_ended() {
        let superseded = supersede(&running(), newer(), NOW).answer;
        assert_calm(&superseded, &follow(&superseded, RunStatus::Cancelled(stopped()), NOW));
    }

    #[test]
    fn an_end_is_not_replaced_by_another() {
        let cancelled = cancel(&queued(), stopped(), NOW).answer;
        let failed = fail(&queued(), failure(), NOW).answer;
        let succeeded = follow(&running(), RunStatus::Succeeded, NOW).answer;
        for ended in [cancelled, failed, succeeded] {
            assert_calm(&ended, &fail(&ended, failure(), NOW));
            assert_calm(&ended, &cancel(&ended, stopped(), NOW));
            assert_calm(&ended, &supersede(&ended, newer(), NOW));
        }
    }

    #[test]
    fn a_retry_is_the_one_way_out_of_an_end_and_out_of_a_failure_alone() {
        let failed = follow(&running(), RunStatus::Failed(failure()), NOW).answer;
        let again = follow(&failed, RunStatus::Running, NOW).answer;
        assert_eq!((again.status, again.finished_at), (DeploymentStatus::Running, None));
        let succeeded = follow(&running(), RunStatus::Succeeded, NOW).answer;
        assert_calm(&succeeded, &follow(&succeeded, RunStatus::Running, NOW));
    }
}
