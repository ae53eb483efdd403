//! Deployments as clients see them.

use std::collections::BTreeMap;

use berth_api::deployment as wire;
use berth_core::deployment::{Cancel, Deployment, Failure, Status, Work};
use berth_core::environment::Lock;
use berth_core::id::StepRunId;
use berth_core::pipeline::model::StepType;
use berth_core::rollout::{self, Rollout, Trigger};
use berth_core::run::{Outcome, Plan, Run, RunStatus, StageKind, StageRun, StageStatus, StepRun, StepStatus};
use berth_engine::{Head, Plans, Whole};
use berth_store::Read;
use berth_store::query::deployments::Either;
use berth_store::records::run::{self, Told};
use berth_store::tables::{approval, environment};

use super::blocked;
use crate::app::Answer;
use crate::error::AppError;
use crate::wire::actor;

pub(super) fn in_full(
    db: &mut impl Read,
    plans: &Plans,
    it: &Either,
    labels: Option<&[String]>,
) -> Result<Answer<wire::Deployment>, AppError> {
    let (mut body, version, is_paused) = match it {
        Either::Environment(it) => {
            let lock = environment::by_id(db, it.environment)?;
            let lock = lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?;
            (in_environment(it, Some(&lock)), lock.environment.version, lock.is_paused)
        }
        Either::Stages(it) => (rollout(it), 1, false),
    };
    let id = match it {
        Either::Environment(it) => it.id,
        Either::Stages(it) => it.id,
    };
    let mut variants = Vec::new();
    if let Some(whole) = Whole::load(db, plans, id)? {
        let told = run::attempts(db, id)?;
        body.stages = stages(&whole.run, &whole.plan, told);
        if whole.run.status() == RunStatus::Waiting && body.status == wire::DeploymentStatus::Running {
            body.status = wire::DeploymentStatus::Waiting;
        }
        body.resolved_commit_id = whole.plan.source.as_ref().map(|source| source.commit.clone());
        body.blocked_by.extend(blocked::in_run(db, &whole, labels)?);
        wait_at_gate(&mut body);
        variants.push(format!("r{}", whole.run.version));
        variants.extend(answers(db, &whole, &body.blocked_by)?);
        let is_shut = body.blocked_by.iter().any(|it| it.kind == wire::BlockedKind::Window);
        variants.extend(is_shut.then(|| "shut".to_owned()));
        if let Head::Stages { is_paused: true, .. } = whole.head {
            variants.push("stopped".into());
        }
        if body.blocked_by.iter().any(|it| it.kind == wire::BlockedKind::PromotionPaused) {
            variants.push("paused".into());
        }
    } else {
        if let Either::Stages(it) = it {
            body.blocked_by = blocked::before_begin(db, it)?;
            variants.push(it.status.as_str().into());
        }
        if body.finished_at.is_none() {
            body.blocked_by.extend(blocked::by_build(db, it)?);
        }
    }
    if is_paused && body.finished_at.is_none() {
        variants.push("stopped".into());
    }
    let answer = Answer::ok(body).at_version(version);
    Ok(if variants.is_empty() { answer } else { answer.varying_by(variants.join(".")) })
}

/// A stage that waits at its gate has not been entered; what people see is that it waits.
fn wait_at_gate(body: &mut wire::Deployment) {
    use wire::BlockedKind::{Approval, EarlierStage, Window};
    let is_blocked = |kinds: &[wire::BlockedKind]| body.blocked_by.iter().any(|it| kinds.contains(&it.kind));
    if !is_blocked(&[Approval, Window]) || is_blocked(&[EarlierStage]) {
        return;
    }
    for stage in body.stages.iter_mut().filter(|stage| stage.status == wire::StageStatus::Queued) {
        (stage.status, body.status) = (wire::StageStatus::Waiting, wire::DeploymentStatus::Waiting);
    }
}

/// People answer, or count no longer, and nothing of the run changes: the answer's tag has to.
fn answers(
    db: &mut impl Read,
    whole: &Whole,
    blocked: &[wire::BlockedBy],
) -> Result<Option<String>, AppError> {
    if !whole.plan.has_approvals() {
        return Ok(None);
    }
    let open = approval::open(db, whole.run.deployment)?;
    let mut told: String = open.iter().map(|it| format!("{}.{} ", it.id, it.version)).collect();
    let asked = blocked.iter().filter(|it| it.kind == wire::BlockedKind::Approval);
    told.extend(asked.map(|it| it.detail.as_str()));
    Ok(Some(format!("a{}", crc32fast::hash(told.as_bytes()))))
}

pub(super) fn in_environment(it: &Deployment, lock: Option<&Lock>) -> wire::Deployment {
    let status = match &it.status {
        Status::Queued => wire::DeploymentStatus::Queued,
        Status::Running(_) => wire::DeploymentStatus::Running,
        Status::Cancelling { .. } => wire::DeploymentStatus::Cancelling,
        Status::Succeeded => wire::DeploymentStatus::Succeeded,
        Status::Failed(_) => wire::DeploymentStatus::Failed,
        Status::Cancelled(_) => wire::DeploymentStatus::Cancelled,
        Status::Superseded { .. } => wire::DeploymentStatus::Superseded,
    };
    let cancel = match &it.status {
        Status::Cancelling { cancel, .. } | Status::Cancelled(cancel) => Some(cancel),
        _ => None,
    };
    let failure = match &it.status {
        Status::Failed(failure) => Some(failure),
        _ => None,
    };
    let (cause, detail) = why(failure, cancel);
    let (session, trigger) = match it.work {
        Work::Session(session) => (Some(session), wire::Trigger::Session),
        Work::Reset => (None, wire::Trigger::Reset),
    };
    let waits = lock.filter(|_| it.status == Status::Queued);
    wire::Deployment {
        id: it.id.to_string(),
        deployment_id: it.id.to_string(),
        number: it.number,
        pipeline_id: it.pipeline.to_string(),
        environment_id: Some(it.environment.to_string()),
        env_name: Some(it.stage.to_string()),
        session_id: session.map(|id| id.to_string()),
        fence: Some(it.fence.number()),
        commit_id: it.commit.to_string(),
        resolved_commit_id: it.resolved_commit.clone(),
        definition_hash: it.definition_hash.clone(),
        trigger,
        rollback: None,
        context: it.context.as_ref().map(ToString::to_string),
        retry_of: it.retry_of.map(|id| id.to_string()),
        reason: None,
        bypass: None,
        actor: actor(&it.requested_by),
        status,
        cause,
        detail,
        cancelled_by: cancel.map(|cancel| actor(&cancel.by)),
        superseded_by: match &it.status {
            Status::Superseded { by } => Some(by.to_string()),
            _ => None,
        },
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        blocked_by: waits.map(|lock| blocked::in_lock(lock, it)).unwrap_or_default(),
        stages: vec![unbegun(&it.stage.to_string(), wire::StageKind::Environment, &it.status)],
    }
}

pub(super) fn rollout(it: &Rollout) -> wire::Deployment {
    let (status, failure, cancel) = match &it.status {
        rollout::Status::Queued => (wire::DeploymentStatus::Queued, None, None),
        rollout::Status::Running => (wire::DeploymentStatus::Running, None, None),
        rollout::Status::Waiting => (wire::DeploymentStatus::Waiting, None, None),
        rollout::Status::Cancelling(cancel) => (wire::DeploymentStatus::Cancelling, None, Some(cancel)),
        rollout::Status::Succeeded => (wire::DeploymentStatus::Succeeded, None, None),
        rollout::Status::Failed(failure) => (wire::DeploymentStatus::Failed, Some(failure), None),
        rollout::Status::Cancelled(cancel) => (wire::DeploymentStatus::Cancelled, None, Some(cancel)),
        rollout::Status::Superseded { .. } => (wire::DeploymentStatus::Superseded, None, None),
    };
    let (cause, detail) = why(failure, cancel);
    wire::Deployment {
        id: it.id.to_string(),
        deployment_id: it.id.to_string(),
        number: it.number,
        pipeline_id: it.pipeline.to_string(),
        environment_id: None,
        env_name: None,
        session_id: None,
        fence: None,
        commit_id: it.commit.to_string(),
        resolved_commit_id: it.resolved_commit.clone(),
        definition_hash: it.definition_hash.clone(),
        trigger: match it.trigger {
            Trigger::Push { .. } => wire::Trigger::Push,
            Trigger::Api => wire::Trigger::Api,
            Trigger::Rollback { .. } => wire::Trigger::Rollback,
        },
        rollback: match &it.trigger {
            Trigger::Rollback { stage, of, to } => {
                Some(wire::Rollback { stage: stage.clone(), of: of.to_string(), to: to.to_string() })
            }
            Trigger::Push { .. } | Trigger::Api => None,
        },
        context: None,
        retry_of: None,
        reason: it.reason.as_ref().map(ToString::to_string),
        bypass: it
            .bypass
            .as_ref()
            .map(|it| wire::Bypass { by: actor(&it.by), reason: it.reason.to_string() }),
        actor: actor(&it.requested_by),
        status,
        cause,
        detail,
        cancelled_by: cancel.map(|cancel| actor(&cancel.by)),
        superseded_by: match &it.status {
            rollout::Status::Superseded { by } => Some(by.to_string()),
            _ => None,
        },
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        blocked_by: Vec::new(),
        stages: Vec::new(),
    }
}

fn why(failure: Option<&Failure>, cancel: Option<&Cancel>) -> (Option<String>, Option<String>) {
    match (failure, cancel) {
        (Some(failure), _) => (Some(failure.cause.as_str().to_owned()), Some(failure.detail.clone())),
        (_, Some(cancel)) => {
            (Some(cancel.cause.as_str().to_owned()), cancel.reason.as_ref().map(ToString::to_string))
        }
        _ => (None, None),
    }
}

/// The one stage of a deployment in an environment, as far as its head tells.
fn unbegun(name: &str, kind: wire::StageKind, status: &Status) -> wire::Stage {
    let status = match status {
        Status::Queued => wire::StageStatus::Queued,
        Status::Running(_) => wire::StageStatus::Running,
        Status::Cancelling { .. } => wire::StageStatus::Cancelling,
        Status::Succeeded => wire::StageStatus::Succeeded,
        Status::Failed(_) => wire::StageStatus::Failed,
        Status::Cancelled(_) => wire::StageStatus::Cancelled,
        Status::Superseded { .. } => wire::StageStatus::Skipped,
    };
    wire::Stage {
        name: name.to_owned(),
        kind,
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

fn stages(run: &Run, plan: &Plan, told: Vec<Told>) -> Vec<wire::Stage> {
    let mut attempts: BTreeMap<StepRunId, Vec<wire::Attempt>> = BTreeMap::new();
    for it in told {
        attempts.entry(it.attempt.step).or_default().push(attempt(&it));
    }
    let mut shown = Vec::with_capacity(run.stages.len());
    for (index, it) in run.stages.iter().enumerate() {
        let steps = run.steps.iter().filter(|step| step.stage == index);
        let steps = steps.map(|it| step(it, plan, attempts.remove(&it.id).unwrap_or_default()));
        shown.push(wire::Stage { steps: Some(steps.collect()), ..stage(it) });
    }
    shown
}

pub(super) fn stage(it: &StageRun) -> wire::Stage {
    let (cause, detail) = why(it.failure.as_ref(), it.cancel.as_ref());
    wire::Stage {
        name: it.name.clone(),
        kind: match it.kind {
            StageKind::Build => wire::StageKind::Build,
            StageKind::Stage => wire::StageKind::Stage,
            StageKind::Environment => wire::StageKind::Environment,
        },
        status: match it.status {
            StageStatus::Pending => wire::StageStatus::Pending,
            StageStatus::Queued => wire::StageStatus::Queued,
            StageStatus::Running => wire::StageStatus::Running,
            StageStatus::Waiting => wire::StageStatus::Waiting,
            StageStatus::Cancelling => wire::StageStatus::Cancelling,
            StageStatus::Succeeded => wire::StageStatus::Succeeded,
            StageStatus::Failed => wire::StageStatus::Failed,
            StageStatus::Cancelled => wire::StageStatus::Cancelled,
            StageStatus::Skipped => wire::StageStatus::Skipped,
        },
        tries: it.tries,
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        cause,
        detail,
        cancelled_by: it.cancel.as_ref().map(|cancel| actor(&cancel.by)),
        reused_from: it.reused_from.map(|id| id.to_string()),
        steps: None,
    }
}

fn step(it: &StepRun, plan: &Plan, attempts: Vec<wire::Attempt>) -> wire::Step {
    let planned = &plan.stages[it.stage].steps;
    let own = &planned[it.index];
    let (cause, detail) = why(it.failure.as_ref(), None);
    wire::Step {
        id: it.id.to_string(),
        step: it.step.to_string(),
        name: own.name.clone(),
        kind: match &own.kind {
            StepType::Builtin(builtin) => builtin.as_str().to_owned(),
            StepType::Custom(text) => text.clone(),
        },
        status: match it.status {
            StepStatus::Pending => wire::StepStatus::Pending,
            // What it has begun elsewhere runs.
            StepStatus::Ready if it.is_polling() => wire::StepStatus::Running,
            StepStatus::Ready => wire::StepStatus::Ready,
            StepStatus::Running => wire::StepStatus::Running,
            StepStatus::Waiting => wire::StepStatus::Waiting,
            StepStatus::Succeeded => wire::StepStatus::Succeeded,
            StepStatus::Failed => wire::StepStatus::Failed,
            StepStatus::Cancelled => wire::StepStatus::Cancelled,
            StepStatus::Skipped => wire::StepStatus::Skipped,
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

fn attempt(it: &Told) -> wire::Attempt {
    let end = it.attempt.end.as_ref();
    let (failure, exit_code) = match end.map(|end| &end.outcome) {
        Some(Outcome::Failed { failure, exit_code }) => (Some(failure), *exit_code),
        _ => (None, None),
    };
    let (cause, mut detail) = why(failure, None);
    if let Some(Outcome::NeverStarted { detail: text, .. }) = end.map(|end| &end.outcome) {
        detail = Some(text.clone());
    }
    if let Some(Outcome::Unanswered { detail: text }) = end.map(|end| &end.outcome) {
        detail = Some(text.clone());
    }
    wire::Attempt {
        number: it.attempt.number,
        status: match end.map(|end| &end.outcome) {
            None => wire::AttemptStatus::Running,
            Some(Outcome::Succeeded { .. }) => wire::AttemptStatus::Succeeded,
            Some(Outcome::Failed { .. }) => wire::AttemptStatus::Failed,
            Some(Outcome::Stopped) => wire::AttemptStatus::Cancelled,
            Some(Outcome::Interrupted) => wire::AttemptStatus::Interrupted,
            Some(Outcome::Lost | Outcome::Unanswered { .. }) => wire::AttemptStatus::Unknown,
            Some(Outcome::NeverStarted { .. }) => wire::AttemptStatus::NeverStarted,
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
        log_bytes: it.log_bytes,
    }
}
