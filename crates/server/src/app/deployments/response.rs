//! Conversion of deployments into API responses.

use std::collections::BTreeMap;

use berth_api::deployment as wire;
use berth_core::deployment::run::{
    AttemptOutcome, Plan, Run, RunStatus, StageRun, StageRunStatus, StageType, StepRun, StepRunStatus,
};
use berth_core::deployment::{
    CancelRequest, Deployment, DeploymentPurpose, DeploymentState, DeploymentTarget, ExecutionFailure,
    StartTrigger,
};
use berth_core::environment::Lock;
use berth_core::id::StepRunId;
use berth_core::pipeline::model::StepType;
use berth_engine::{DeploymentAggregate, LoadedDeployment, RunCache};
use berth_store::StoreRead;
use berth_store::tables::attempt;
use berth_store::tables::attempt::AttemptReport;
use berth_store::tables::{approval, environment};

use super::blockers;
use crate::app::ApiResponse;
use crate::app::commit_details::fill_deployments;
use crate::app::pull_requests::{find_link_of_deployment, link_variant};
use crate::config::AppConfig;
use crate::error::AppError;
use crate::wire::actor_to_wire;

pub(super) fn full_response(
    db: &mut impl StoreRead,
    plans: &RunCache,
    it: &Deployment,
    config: &AppConfig,
) -> Result<ApiResponse<wire::WireDeployment>, AppError> {
    let lock = match &it.target {
        DeploymentTarget::Environment(target) => {
            let lock = environment::by_id(db, target.environment)?;
            Some(lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?)
        }
        DeploymentTarget::Stages(_) => None,
    };
    let version = lock.as_ref().map_or(1, |lock| lock.environment.version);
    let is_paused = lock.as_ref().is_some_and(|lock| lock.is_paused);
    let mut body = deployment_summary(it, lock.as_ref());
    let mut variants = Vec::new();
    body.pull_request = find_link_of_deployment(db, it)?;
    variants.extend(body.pull_request.as_ref().map(link_variant));
    fill_deployments(db, &config.forges, [&mut body])?;
    // Until the deployment has ended, other deployments change what it is compared with.
    variants.extend(body.compare_url.as_ref().map(|url| format!("c{}", crc32fast::hash(url.as_bytes()))));
    if let Some(aggregate) = DeploymentAggregate::load(db, plans, it.id)? {
        let told = attempt::list_of_run(db, it.id)?;
        body.stages = stages_to_wire(&aggregate.run, &aggregate.plan, told);
        if aggregate.run.status() == RunStatus::Waiting && body.status == wire::DeploymentStatus::Running {
            body.status = wire::DeploymentStatus::Waiting;
        }
        body.resolved_commit_id = aggregate.plan.source.as_ref().map(|source| source.commit.clone());
        body.blocked_by.extend(blockers::blockers_in_run(db, &aggregate, config.runner_labels.as_deref())?);
        wait_at_gate(&mut body);
        variants.push(format!("r{}", aggregate.run.version));
        variants.extend(approvals_variant(db, &aggregate, &body.blocked_by)?);
        let is_shut = body.blocked_by.iter().any(|it| it.kind == wire::BlockedKind::Window);
        variants.extend(is_shut.then(|| "shut".to_owned()));
        if let LoadedDeployment::Stages { is_paused: true, .. } = aggregate.deployment {
            variants.push("stopped".into());
        }
        if body.blocked_by.iter().any(|it| it.kind == wire::BlockedKind::PromotionPaused) {
            variants.push("paused".into());
        }
    } else {
        if let DeploymentTarget::Stages(target) = &it.target {
            body.blocked_by = blockers::blockers_before_start(db, it, target)?;
            variants.push(it.status.as_str().into());
        }
        if body.finished_at.is_none() {
            body.blocked_by.extend(blockers::build_blocker(db, it)?);
        }
    }
    if is_paused && body.finished_at.is_none() {
        variants.push("stopped".into());
    }
    let answer = ApiResponse::ok(body).with_version(version);
    Ok(if variants.is_empty() { answer } else { answer.with_variant(variants.join(".")) })
}

/// Reports queued stages as waiting if a gate blocks the deployment and no other deployment is still in the stage.
fn wait_at_gate(body: &mut wire::WireDeployment) {
    use wire::BlockedKind::{Approval, EarlierStage, Window};
    let is_blocked = |kinds: &[wire::BlockedKind]| body.blocked_by.iter().any(|it| kinds.contains(&it.kind));
    if !is_blocked(&[Approval, Window]) || is_blocked(&[EarlierStage]) {
        return;
    }
    for stage in body.stages.iter_mut().filter(|stage| stage.status == wire::StageStatus::Queued) {
        (stage.status, body.status) = (wire::StageStatus::Waiting, wire::DeploymentStatus::Waiting);
    }
}

/// Returns the part of the `ETag` that covers open approvals. Votes and membership changes alter the response without
/// changing the run.
fn approvals_variant(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    blocked: &[wire::BlockedBy],
) -> Result<Option<String>, AppError> {
    if !aggregate.plan.has_approvals() {
        return Ok(None);
    }
    let open = approval::list_pending(db, aggregate.run.deployment)?;
    let mut told: String = open.iter().map(|it| format!("{}.{} ", it.id, it.version)).collect();
    let asked = blocked.iter().filter(|it| it.kind == wire::BlockedKind::Approval);
    told.extend(asked.map(|it| it.detail.as_str()));
    Ok(Some(format!("a{}", crc32fast::hash(told.as_bytes()))))
}

/// Converts a deployment without its run. If `lock` is given, a queued deployment to an environment lists what blocks
/// it.
pub(super) fn deployment_summary(it: &Deployment, lock: Option<&Lock>) -> wire::WireDeployment {
    let (environment, stages) = match &it.target {
        DeploymentTarget::Environment(target) => (Some(target), None),
        DeploymentTarget::Stages(target) => (None, Some(target)),
    };
    let session = environment.and_then(|target| match target.purpose {
        DeploymentPurpose::Session(session) => Some(session),
        DeploymentPurpose::Reset => None,
    });
    let trigger = match stages.map(|target| &target.trigger) {
        None if session.is_some() => wire::DeploymentTrigger::Session,
        None => wire::DeploymentTrigger::Reset,
        Some(StartTrigger::Push { .. }) => wire::DeploymentTrigger::Push,
        Some(StartTrigger::Api) => wire::DeploymentTrigger::Api,
        Some(StartTrigger::Rollback { .. }) => wire::DeploymentTrigger::Rollback,
    };
    let rollback = stages.and_then(|target| match &target.trigger {
        StartTrigger::Rollback { stage, of, to } => {
            Some(wire::RollbackInfo { stage: stage.clone(), of: of.to_string(), to: to.to_string() })
        }
        StartTrigger::Push { .. } | StartTrigger::Api => None,
    });
    let bypass = stages.and_then(|target| target.bypass.as_ref());
    let (failure, cancel) = (it.status.failure(), it.status.cancel());
    let (cause, detail) = failure_cause(failure, cancel);
    let reason = it.reason.as_ref().map(ToString::to_string);
    let blocking = lock.filter(|_| it.status == DeploymentState::Queued);
    wire::WireDeployment {
        id: it.id.to_string(),
        deployment_id: it.id.to_string(),
        number: it.number,
        pipeline_id: it.pipeline.to_string(),
        environment_id: environment.map(|target| target.environment.to_string()),
        env_name: environment.map(|target| target.name.to_string()),
        session_id: session.map(|id| id.to_string()),
        fence: environment.map(|target| target.fence.number()),
        commit_id: it.commit.to_string(),
        resolved_commit_id: it.resolved_commit.clone(),
        commit: None,
        compare_url: None,
        definition_hash: it.definition_hash.clone(),
        trigger,
        rollback,
        context: reason.clone().filter(|_| environment.is_some()),
        is_untrusted: environment.is_some_and(|target| target.is_untrusted),
        retry_of: environment.and_then(|target| target.retry_of).map(|id| id.to_string()),
        reason: reason.filter(|_| stages.is_some()),
        bypass: bypass
            .map(|it| wire::DeploymentBypass { by: actor_to_wire(&it.by), reason: it.reason.to_string() }),
        actor: actor_to_wire(&it.requested_by),
        status: status_to_wire(&it.status),
        cause,
        detail,
        cancelled_by: cancel.map(|cancel| actor_to_wire(&cancel.by)),
        superseded_by: it.status.superseded_by().map(|id| id.to_string()),
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        blocked_by: blocking.map(|lock| blockers::blockers_in_lock(lock, it.id)).unwrap_or_default(),
        stages: environment
            .map(|target| unstarted_stage(target.name.as_str(), &it.status))
            .into_iter()
            .collect(),
        pull_request: None,
    }
}

pub(in crate::app) const fn status_to_wire(status: &DeploymentState) -> wire::DeploymentStatus {
    match status {
        DeploymentState::Queued => wire::DeploymentStatus::Queued,
        DeploymentState::Running => wire::DeploymentStatus::Running,
        DeploymentState::Waiting => wire::DeploymentStatus::Waiting,
        DeploymentState::Cancelling(_) => wire::DeploymentStatus::Cancelling,
        DeploymentState::Succeeded => wire::DeploymentStatus::Succeeded,
        DeploymentState::Failed(_) => wire::DeploymentStatus::Failed,
        DeploymentState::Cancelled(_) => wire::DeploymentStatus::Cancelled,
        DeploymentState::Superseded { .. } => wire::DeploymentStatus::Superseded,
    }
}

fn failure_cause(
    failure: Option<&ExecutionFailure>,
    cancel: Option<&CancelRequest>,
) -> (Option<String>, Option<String>) {
    match (failure, cancel) {
        (Some(failure), _) => (Some(failure.cause.as_str().to_owned()), Some(failure.detail.clone())),
        (_, Some(cancel)) => {
            (Some(cancel.cause.as_str().to_owned()), cancel.reason.as_ref().map(ToString::to_string))
        }
        _ => (None, None),
    }
}

/// Builds the single stage shown for a deployment to an environment before the deployment has a run.
fn unstarted_stage(name: &str, status: &DeploymentState) -> wire::DeploymentStage {
    let status = match status {
        DeploymentState::Queued => wire::StageStatus::Queued,
        DeploymentState::Running => wire::StageStatus::Running,
        DeploymentState::Waiting => wire::StageStatus::Waiting,
        DeploymentState::Cancelling(_) => wire::StageStatus::Cancelling,
        DeploymentState::Succeeded => wire::StageStatus::Succeeded,
        DeploymentState::Failed(_) => wire::StageStatus::Failed,
        DeploymentState::Cancelled(_) => wire::StageStatus::Cancelled,
        DeploymentState::Superseded { .. } => wire::StageStatus::Skipped,
    };
    wire::DeploymentStage {
        name: name.to_owned(),
        kind: wire::StageKind::Environment,
        status,
        tries: 0,
        started_at: None,
        finished_at: None,
        cause: None,
        detail: None,
        cancelled_by: None,
        reused_from: None,
        steps: None,
    }
}

fn stages_to_wire(run: &Run, plan: &Plan, told: Vec<AttemptReport>) -> Vec<wire::DeploymentStage> {
    let mut attempts: BTreeMap<StepRunId, Vec<wire::StepAttempt>> = BTreeMap::new();
    for it in told {
        attempts.entry(it.attempt.step).or_default().push(attempt_to_wire(&it));
    }
    let mut shown = Vec::with_capacity(run.stages.len());
    for (index, it) in run.stages.iter().enumerate() {
        let steps = run.steps.iter().filter(|step| step.stage == index);
        let steps = steps.map(|it| step_to_wire(it, plan, attempts.remove(&it.id).unwrap_or_default()));
        shown.push(wire::DeploymentStage { steps: Some(steps.collect()), ..stage_to_wire(it) });
    }
    shown
}

pub(super) fn stage_to_wire(it: &StageRun) -> wire::DeploymentStage {
    let (cause, detail) = failure_cause(it.failure.as_ref(), it.cancel.as_ref());
    wire::DeploymentStage {
        name: it.name.clone(),
        kind: match it.kind {
            StageType::Build => wire::StageKind::Build,
            StageType::Stage => wire::StageKind::Stage,
            StageType::Environment => wire::StageKind::Environment,
        },
        status: match it.status {
            StageRunStatus::Pending => wire::StageStatus::Pending,
            StageRunStatus::Queued => wire::StageStatus::Queued,
            StageRunStatus::Running => wire::StageStatus::Running,
            StageRunStatus::Waiting => wire::StageStatus::Waiting,
            StageRunStatus::Cancelling => wire::StageStatus::Cancelling,
            StageRunStatus::Succeeded => wire::StageStatus::Succeeded,
            StageRunStatus::Failed => wire::StageStatus::Failed,
            StageRunStatus::Cancelled => wire::StageStatus::Cancelled,
            StageRunStatus::Skipped => wire::StageStatus::Skipped,
        },
        tries: it.tries,
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        cause,
        detail,
        cancelled_by: it.cancel.as_ref().map(|cancel| actor_to_wire(&cancel.by)),
        reused_from: it.reused_from.map(|id| id.to_string()),
        steps: None,
    }
}

fn step_to_wire(it: &StepRun, plan: &Plan, attempts: Vec<wire::StepAttempt>) -> wire::DeploymentStep {
    let planned = &plan.stages[it.stage].steps;
    let own = &planned[it.index];
    let (cause, detail) = failure_cause(it.failure.as_ref(), None);
    wire::DeploymentStep {
        id: it.id.to_string(),
        step: it.step.to_string(),
        name: own.name.clone(),
        kind: match &own.kind {
            StepType::Builtin(builtin) => builtin.as_str().to_owned(),
            StepType::Custom(text) => text.clone(),
        },
        status: match it.status {
            StepRunStatus::Pending => wire::StepStatus::Pending,
            // The step triggered work in an external system, and that work is still in progress.
            StepRunStatus::Ready if it.is_polling() => wire::StepStatus::Running,
            StepRunStatus::Ready => wire::StepStatus::Ready,
            StepRunStatus::Running => wire::StepStatus::Running,
            StepRunStatus::Waiting => wire::StepStatus::Waiting,
            StepRunStatus::Succeeded => wire::StepStatus::Succeeded,
            StepRunStatus::Failed => wire::StepStatus::Failed,
            StepRunStatus::Cancelled => wire::StepStatus::Cancelled,
            StepRunStatus::Skipped => wire::StepStatus::Skipped,
        },
        uses: own.custom.as_ref().map(|it| wire::UsedStep {
            registry: it.name.to_string(),
            commit_id: it.commit.clone(),
            step_type: it.step_type.clone(),
        }),
        needs: own.needs.iter().map(|need| planned[*need].id.to_string()).collect(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        not_before: it.not_before.map(|at| at.to_string()),
        cause,
        detail,
        outputs: it.outputs.clone(),
        artifacts: it.artifacts.clone(),
        attempts,
    }
}

fn attempt_to_wire(it: &AttemptReport) -> wire::StepAttempt {
    let end = it.attempt.end.as_ref();
    let (failure, exit_code) = match end.map(|end| &end.outcome) {
        Some(AttemptOutcome::Failed { failure, exit_code }) => (Some(failure), *exit_code),
        _ => (None, None),
    };
    let (cause, mut detail) = failure_cause(failure, None);
    if let Some(AttemptOutcome::NeverStarted { detail: text, .. }) = end.map(|end| &end.outcome) {
        detail = Some(text.clone());
    }
    if let Some(AttemptOutcome::Unanswered { detail: text }) = end.map(|end| &end.outcome) {
        detail = Some(text.clone());
    }
    wire::StepAttempt {
        number: it.attempt.number,
        status: match end.map(|end| &end.outcome) {
            None => wire::AttemptStatus::Running,
            Some(AttemptOutcome::Succeeded { .. }) => wire::AttemptStatus::Succeeded,
            Some(AttemptOutcome::Failed { .. }) => wire::AttemptStatus::Failed,
            Some(AttemptOutcome::Stopped) => wire::AttemptStatus::Cancelled,
            Some(AttemptOutcome::Interrupted) => wire::AttemptStatus::Interrupted,
            Some(AttemptOutcome::Lost | AttemptOutcome::Unanswered { .. }) => wire::AttemptStatus::Unknown,
            Some(AttemptOutcome::NeverStarted { .. }) => wire::AttemptStatus::NeverStarted,
        },
        calls: it.attempt.calls,
        started_at: it.attempt.granted_at.to_string(),
        finished_at: end.map(|end| end.at.to_string()),
        exit_code,
        cause,
        detail,
        isolation: it.isolation.clone(),
        network: it.network.clone(),
        exposed: it.exposed.clone(),
        images: it.images.clone(),
        log_bytes: it.log_bytes,
    }
}
