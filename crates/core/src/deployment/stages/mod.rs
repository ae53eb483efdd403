//! State transitions of a deployment through the stages of its pipeline. Its status follows the status of its run.

pub mod stage;

use std::collections::BTreeSet;

use crate::decision::{DomainRecord, RecordChange, RuleDecision};
use crate::deployment::run::RunStatus;
use crate::deployment::{
    CancelRequest, DeploymentState, ExecutionFailure, StagesDeployment, StagesTarget, StartTrigger,
};
use crate::event::{Actor, EventKind, EventSubject, NewEvent};
use crate::id::{DeploymentId, UserId};
use crate::name::Reason;
use crate::time::Timestamp;

/// Maximum number of unfinished deployments of a pipeline. At the limit, a push supersedes an older deployment, and an
/// API request is refused.
pub const UNFINISHED_MAX: usize = 100;

pub fn start(deployment: StagesDeployment) -> RuleDecision<StagesDeployment> {
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

/// Records who retried a stage. They count as people who started the deployment, so they may not approve it if
/// self-approval is off. The run appends the retry event.
pub fn record_retry(deployment: &StagesDeployment, by: BTreeSet<UserId>) -> RuleDecision<StagesDeployment> {
    let mut next = deployment.clone();
    next.target.retried_by.extend(by);
    let is_new = next.target.retried_by != deployment.target.retried_by;
    let mut decision = if is_new { put(next, None) } else { RuleDecision::without_changes(next) };
    // A retry of a deployment with a bypass uses the bypass again, which is audited each time.
    decision.events.extend(bypass_used(deployment));
    decision
}

/// The command to roll a stage back to an earlier deployment.
#[derive(Debug, Clone)]
pub struct RollBack<'a> {
    pub id: DeploymentId,
    pub number: i64,
    pub stage: &'a str,
    pub rolled_back: DeploymentId,
    /// The deployment whose commit and definition are used again.
    pub to: &'a StagesDeployment,
    pub by: Actor,
    pub reason: Option<Reason>,
}

pub fn roll_back(cmd: RollBack<'_>, now: Timestamp) -> RuleDecision<StagesDeployment> {
    let (stage, of, to, by) = (cmd.stage.to_owned(), cmd.rolled_back, cmd.to, cmd.by);
    let mut decision = start(StagesDeployment {
        id: cmd.id,
        number: cmd.number,
        pipeline: to.pipeline,
        definition_hash: to.definition_hash.clone(),
        commit: to.commit.clone(),
        resolved_commit: to.resolved_commit.clone(),
        reason: cmd.reason,
        requested_by: by.clone(),
        status: DeploymentState::Queued,
        created_at: now,
        started_at: None,
        finished_at: None,
        target: StagesTarget {
            trigger: StartTrigger::Rollback { stage, of, to: to.id },
            retried_by: BTreeSet::new(),
            bypass: None,
        },
    });
    let deployment = &decision.answer;
    let event = deployment_event(EventKind::DeploymentRolledBack, deployment)
        .with_subject(EventSubject::new("deployment", of, None))
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

/// Starts a queued deployment whose plan is ready. Changes nothing if the deployment was cancelled or superseded in the
/// meantime.
pub fn begin(
    deployment: &StagesDeployment,
    resolved_commit: Option<String>,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    if deployment.status != DeploymentState::Queued {
        return RuleDecision::without_changes(deployment.clone());
    }
    let begun = StagesDeployment {
        status: DeploymentState::Running,
        resolved_commit,
        started_at: Some(now),
        ..deployment.clone()
    };
    let event = deployment_event(EventKind::DeploymentStarted, &begun);
    put(begun, Some(event))
}

/// Copies the status of the run to the deployment; after a retry, a failed deployment becomes running again. Appends an
/// event only for a final status or a cancellation; the run appends all other events.
pub fn follow_run(
    deployment: &StagesDeployment,
    run: RunStatus,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    let (status, kind) = match run {
        RunStatus::Running => (DeploymentState::Running, None),
        RunStatus::Waiting => (DeploymentState::Waiting, None),
        RunStatus::Cancelling(cancel) => {
            (DeploymentState::Cancelling(cancel), Some(EventKind::DeploymentCancelling))
        }
        RunStatus::Succeeded => (DeploymentState::Succeeded, Some(EventKind::DeploymentSucceeded)),
        RunStatus::Failed(failure) => (DeploymentState::Failed(failure), Some(EventKind::DeploymentFailed)),
        RunStatus::Cancelled(cancel) => {
            (DeploymentState::Cancelled(cancel), Some(EventKind::DeploymentCancelled))
        }
    };
    // Only a failed deployment can continue. A superseded deployment stays superseded, even though its run ends as
    // cancelled.
    let comes_back = matches!(deployment.status, DeploymentState::Failed(_));
    if deployment.status.is_final() && !comes_back {
        return RuleDecision::without_changes(deployment.clone());
    }
    change_status(deployment, status, kind, now)
}

/// Fails a deployment that cannot start because its sources are missing or its definition cannot be run.
pub fn fail(
    deployment: &StagesDeployment,
    failure: ExecutionFailure,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    end(deployment, DeploymentState::Failed(failure), EventKind::DeploymentFailed, now)
}

/// Cancels a deployment that has not started.
pub fn cancel(
    deployment: &StagesDeployment,
    cancel: CancelRequest,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    end(deployment, DeploymentState::Cancelled(cancel), EventKind::DeploymentCancelled, now)
}

/// Ends the deployment because a newer one replaces it.
pub fn supersede(
    deployment: &StagesDeployment,
    by: DeploymentId,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    end(deployment, DeploymentState::Superseded { by }, EventKind::DeploymentSuperseded, now)
}

/// Moves the deployment to a final state. Changes nothing if it has already ended.
fn end(
    deployment: &StagesDeployment,
    status: DeploymentState,
    kind: EventKind,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    if deployment.status.is_final() {
        return RuleDecision::without_changes(deployment.clone());
    }
    change_status(deployment, status, Some(kind), now)
}

fn change_status(
    deployment: &StagesDeployment,
    status: DeploymentState,
    kind: Option<EventKind>,
    now: Timestamp,
) -> RuleDecision<StagesDeployment> {
    if deployment.status == status {
        return RuleDecision::without_changes(deployment.clone());
    }
    let finished_at = status.is_final().then_some(now);
    let next = StagesDeployment { status, finished_at, ..deployment.clone() };
    let event = kind.map(|kind| match &next.status {
        DeploymentState::Failed(failure) => deployment_event(kind, &next)
            .with("cause", failure.cause.as_str())
            .with("detail", failure.detail.as_str()),
        DeploymentState::Cancelled(cancel) | DeploymentState::Cancelling(cancel) => {
            deployment_event(kind, &next)
                .with("cause", cancel.cause.as_str())
                .with_some("reason", cancel.reason.as_ref())
        }
        DeploymentState::Superseded { by } => {
            deployment_event(kind, &next).with("supersededBy", by.to_string())
        }
        _ => deployment_event(kind, &next),
    });
    put(next, event)
}

fn put(deployment: StagesDeployment, event: Option<NewEvent>) -> RuleDecision<StagesDeployment> {
    RuleDecision {
        changes: vec![RecordChange::Put(DomainRecord::StagesDeployment(Box::new(deployment.clone())))],
        events: event.into_iter().collect(),
        effects: Vec::new(),
        answer: deployment,
    }
}

fn deployment_event(kind: EventKind, deployment: &StagesDeployment) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("deployment", deployment.id, None))
        .with_subject(EventSubject::new("pipeline", deployment.pipeline, None))
        .with("commitId", deployment.commit.as_str())
        .with("number", deployment.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{CancelCause, FailureCode};
    use crate::id::PipelineId;
    use crate::name::CommitId;

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn queued_deployment() -> StagesDeployment {
        StagesDeployment {
            id: DeploymentId::from_parts(NOW, [1; 10]),
            number: 1,
            pipeline: PipelineId::from_parts(NOW, [2; 10]),
            definition_hash: "hash".into(),
            commit: CommitId::parse("c1").expect("a commit"),
            resolved_commit: None,
            reason: None,
            requested_by: Actor::system(),
            status: DeploymentState::Queued,
            created_at: NOW,
            started_at: None,
            finished_at: None,
            target: StagesTarget { trigger: StartTrigger::Api, retried_by: BTreeSet::new(), bypass: None },
        }
    }

    fn cancel_request() -> CancelRequest {
        CancelRequest { by: Actor::system(), cause: CancelCause::Requested, reason: None }
    }

    fn failure() -> ExecutionFailure {
        ExecutionFailure { cause: FailureCode::StepFailed, detail: "exit code 1".into() }
    }

    fn newer_deployment() -> DeploymentId {
        DeploymentId::from_parts(NOW, [3; 10])
    }

    fn running_deployment() -> StagesDeployment {
        begin(&queued_deployment(), None, NOW).answer
    }

    #[track_caller]
    fn assert_unchanged(deployment: &StagesDeployment, decision: &RuleDecision<StagesDeployment>) {
        assert_eq!(decision, &RuleDecision::without_changes(deployment.clone()));
    }

    #[test]
    fn deployment_that_ended_or_started_does_not_begin() {
        for ended in [
            cancel(&queued_deployment(), cancel_request(), NOW).answer,
            supersede(&queued_deployment(), newer_deployment(), NOW).answer,
        ] {
            assert_unchanged(&ended, &begin(&ended, None, NOW));
        }
        assert_unchanged(&running_deployment(), &begin(&running_deployment(), None, NOW));
    }

    #[test]
    fn superseded_deployment_ignores_its_cancelled_run() {
        let superseded = supersede(&running_deployment(), newer_deployment(), NOW).answer;
        assert_unchanged(&superseded, &follow_run(&superseded, RunStatus::Cancelled(cancel_request()), NOW));
    }

    #[test]
    fn ended_deployment_ignores_further_ends() {
        let cancelled = cancel(&queued_deployment(), cancel_request(), NOW).answer;
        let failed = fail(&queued_deployment(), failure(), NOW).answer;
        let succeeded = follow_run(&running_deployment(), RunStatus::Succeeded, NOW).answer;
        for ended in [cancelled, failed, succeeded] {
            assert_unchanged(&ended, &fail(&ended, failure(), NOW));
            assert_unchanged(&ended, &cancel(&ended, cancel_request(), NOW));
            assert_unchanged(&ended, &supersede(&ended, newer_deployment(), NOW));
        }
    }

    #[test]
    fn retry_restarts_only_failed_deployments() {
        let failed = follow_run(&running_deployment(), RunStatus::Failed(failure()), NOW).answer;
        let again = follow_run(&failed, RunStatus::Running, NOW).answer;
        assert_eq!((again.status, again.finished_at), (DeploymentState::Running, None));
        let succeeded = follow_run(&running_deployment(), RunStatus::Succeeded, NOW).answer;
        assert_unchanged(&succeeded, &follow_run(&succeeded, RunStatus::Running, NOW));
    }
}
