//! Reasons why a deployment waits, for the `blockedBy` member of API responses.

use berth_api::deployment::{BlockedBy, BlockedKind};
use berth_core::approval::Approval;
use berth_core::deployment::environment::obstacles;
use berth_core::deployment::run::StepRunStatus;
use berth_core::deployment::run::enter::{
    StageEntry, WaitingDeployment, decide_entry, decide_rollback_entry,
};
use berth_core::deployment::stages::stage::PromotionPause;
use berth_core::deployment::{Deployment, StagesTarget, StartObstacle};
use berth_core::environment::Lock;
use berth_core::id::DeploymentId;
use berth_core::pipeline::grammar::Label;
use berth_core::pipeline::model::{ApprovalPolicy, ApproverSelector};
use berth_core::pipeline::state;
use berth_core::runner::ONLINE_S;
use berth_engine::gates::{self, ApprovalProgress};
use berth_engine::{DeploymentAggregate, LoadedDeployment, authors, matches_labels, tally};
use berth_store::StoreRead;
use berth_store::tables::plan::{self, BuildKey, BuildState};
use berth_store::tables::{approval, pipeline, runner, schedule, stage};

use crate::error::AppError;
use crate::limits::RUNNERS_PER_ORGANIZATION_MAX;

/// Returns what blocks a queued deployment to an environment.
pub(super) fn blockers_in_lock(lock: &Lock, id: DeploymentId) -> Vec<BlockedBy> {
    let deadline =
        lock.session.as_ref().and_then(|session| session.drain.as_ref()).map(|drain| drain.deadline);
    let shown = |blocked: StartObstacle| match blocked {
        StartObstacle::PipelineStopped => stopped_blocker(),
        StartObstacle::EnvironmentContested { pending } => BlockedBy {
            kind: BlockedKind::EnvironmentContested,
            detail: format!(
                "waits until {} of an earlier session has stopped",
                if pending.len() == 1 {
                    "a deployment".to_owned()
                } else {
                    format!("{} deployments", pending.len())
                }
            ),
            cleared_by: pending.first().map(|id| format!("the end of {id}")),
            clears_at: deadline.map(|at| at.to_string()),
        },
        StartObstacle::EnvironmentResetting { reset } => BlockedBy {
            kind: BlockedKind::EnvironmentResetting,
            detail: "waits until the environment has been reset".into(),
            cleared_by: Some(format!("the end of {reset}")),
            clears_at: None,
        },
        StartObstacle::Queue { behind } => BlockedBy {
            kind: BlockedKind::Queue,
            detail: "waits for an earlier deployment of the same session".into(),
            cleared_by: Some(format!("the end of {behind}")),
            clears_at: None,
        },
    };
    lock.deployment(id).map_or_else(Vec::new, |it| obstacles(lock, it).into_iter().map(shown).collect())
}

/// Returns what blocks a deployment to stages that has no run yet.
pub(super) fn blockers_before_start(
    db: &mut impl StoreRead,
    it: &Deployment,
    target: &StagesTarget,
) -> Result<Vec<BlockedBy>, AppError> {
    let found = pipeline::by_id(db, it.pipeline)?;
    let is_stopped =
        found.is_some_and(|found| matches!(found.status, state::PipelineActivity::Stopped { .. }));
    let is_stopped = is_stopped && target.bypass.is_none();
    Ok(if is_stopped && !it.status.is_final() { vec![stopped_blocker()] } else { Vec::new() })
}

/// Returns a blocker if the deployment has not started because another deployment is building the same commit.
pub(super) fn build_blocker(db: &mut impl StoreRead, it: &Deployment) -> Result<Option<BlockedBy>, AppError> {
    let (commit, definition_hash) = (it.commit.as_str(), &it.definition_hash);
    let found = plan::find_build(db, BuildKey { pipeline: it.pipeline, commit, definition_hash })?;
    Ok(match found {
        Some(BuildState::Begun(other)) if other != it.id => Some(BlockedBy {
            kind: BlockedKind::Queue,
            detail: "waits for another deployment to build the same commit".into(),
            cleared_by: Some(format!("the end of the build of {other}")),
            clears_at: None,
        }),
        _ => None,
    })
}

/// Returns what blocks a deployment that has a run. `labels` are the labels of this server's embedded runner, if it has
/// one.
pub(super) fn blockers_in_run(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    labels: Option<&[String]>,
) -> Result<Vec<BlockedBy>, AppError> {
    let mut found = Vec::new();
    if aggregate.run.status().is_final() {
        return Ok(found);
    }
    let waits = |status: StepRunStatus| aggregate.run.steps.iter().filter(move |step| step.status == status);
    let is_new = waits(StepRunStatus::Ready).any(|step| !step.is_polling());
    let is_waiting = is_new || aggregate.run.queued_for().is_some();
    if aggregate.deployment.is_paused() && is_waiting {
        found.push(stopped_blocker());
    }
    found.extend(held_step_blockers(db, aggregate)?);
    for step in waits(StepRunStatus::Waiting).filter(|step| !step.is_gated()) {
        found.push(BlockedBy {
            kind: BlockedKind::UnknownOutcome,
            detail: format!("the outcome of step \"{}\" is unknown", step.step),
            cleared_by: Some(format!("a member with deployments:operate who resolves {}", step.id)),
            clears_at: None,
        });
    }
    if let (Some((index, stage)), LoadedDeployment::Stages { deployment, .. }) =
        (aggregate.run.queued_for(), &aggregate.deployment)
    {
        found.extend(stage_gate_blockers(db, aggregate, index)?);
        let is_rollback = deployment.target.trigger.rollback_of().is_some();
        let passes = is_rollback || aggregate.deployment.has_bypass();
        let pause = stage::by_name(db, deployment.pipeline, stage)?.pause.filter(|_| !passes);
        found.extend(pause.map(|pause| pause_blocker(&pause, stage)));
        let others = schedule::list_contenders(db, deployment.pipeline, stage, deployment.id)?;
        let waits = WaitingDeployment {
            number: deployment.number,
            is_protected: true,
            has_bypass: aggregate.deployment.has_bypass(),
        };
        let said = if is_rollback {
            decide_rollback_entry(deployment.number, &others)
        } else {
            decide_entry(waits, &others)
        };
        if let StageEntry::Behind(other) = said {
            found.push(BlockedBy {
                kind: BlockedKind::EarlierStage,
                detail: format!("another deployment is in stage \"{stage}\""),
                cleared_by: Some(format!("the end of {other} in that stage")),
                clears_at: None,
            });
        }
    }
    if let Some(stage) = gates::gated_unstarted_stage(aggregate) {
        found.extend(stage_gate_blockers(db, aggregate, stage)?);
    }
    found.extend(find_steps_without_runner(db, aggregate, labels)?);
    Ok(found)
}

/// Returns the ready steps whose required labels no online runner has.
fn find_steps_without_runner(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    labels: Option<&[String]>,
) -> Result<Vec<BlockedBy>, AppError> {
    let is_ready = |at: &usize| aggregate.run.steps[*at].status == StepRunStatus::Ready;
    let is_here = |at: &usize| labels.is_some_and(|labels| matches_labels(aggregate, *at, labels));
    let ready: Vec<usize> =
        (0..aggregate.run.steps.len()).filter(is_ready).filter(|at| !is_here(at)).collect();
    if ready.is_empty() {
        return Ok(Vec::new());
    }
    let since = db.now().plus_seconds(-ONLINE_S);
    let online = runner::list_seen_since(db, since, RUNNERS_PER_ORGANIZATION_MAX)?;
    let online: Vec<Vec<String>> =
        online.iter().map(|it| it.labels.iter().map(ToString::to_string).collect()).collect();
    let nowhere =
        ready.into_iter().filter(|at| !online.iter().any(|labels| matches_labels(aggregate, *at, labels)));
    let blocked = nowhere.map(|at| {
        let step = &aggregate.run.steps[at];
        let wanted: Vec<&str> = aggregate.plan.step(step).runs_on.iter().map(Label::as_str).collect();
        let detail = match wanted.is_empty() {
            true => format!("no runner is online for step \"{}\"", step.step),
            false => {
                format!("no runner with labels {} is online for step \"{}\"", wanted.join(", "), step.step)
            }
        };
        BlockedBy {
            kind: BlockedKind::NoRunner,
            detail,
            cleared_by: Some("a runner with these labels".to_owned()).filter(|_| !wanted.is_empty()),
            clears_at: None,
        }
    });
    Ok(blocked.collect())
}

/// Returns the gates of a stage that are not satisfied: approvals and deployment windows.
fn stage_gate_blockers(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: usize,
) -> Result<Vec<BlockedBy>, AppError> {
    let name = &aggregate.run.stages[stage].name;
    let mut found = Vec::new();
    match gates::approval_progress(db, aggregate, stage)? {
        ApprovalProgress::Pending(approval) => {
            found.push(approval_blocker(db, &format!("stage \"{name}\""), &approval)?);
        }
        ApprovalProgress::Missing { .. } if authors::unread_range(db, aggregate, stage)?.is_some() => {
            found.push(unread_authors_blocker(name));
        }
        // A missing approval is not a blocker yet: the engine requests it once the deployment reaches this stage.
        ApprovalProgress::Satisfied | ApprovalProgress::Missing { .. } => {}
    }
    if let Some(until) = gates::closed_until(aggregate, stage, db.now()) {
        found.push(BlockedBy {
            kind: BlockedKind::Window,
            detail: format!("the deployment window of stage \"{name}\" is closed"),
            cleared_by: until.is_some().then(|| "time".to_owned()),
            clears_at: until.map(|at| at.to_string()),
        });
    }
    Ok(found)
}

/// Returns the steps that wait for an approval or for the end of a soak.
fn held_step_blockers(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
) -> Result<Vec<BlockedBy>, AppError> {
    let mut found = Vec::new();
    let held_steps: Vec<usize> = aggregate.run.gated_steps().collect();
    let open = if held_steps.is_empty() {
        Vec::new()
    } else {
        approval::list_pending(db, aggregate.run.deployment)?
    };
    for at in held_steps {
        let step = &aggregate.run.steps[at];
        if let Some(approval) = open.iter().find(|it| it.step == Some(step.id)) {
            found.push(approval_blocker(db, &format!("step \"{}\"", step.step), approval)?);
        } else if let Some(until) = step.not_before {
            found.push(BlockedBy {
                kind: BlockedKind::Soak,
                detail: format!("step \"{}\" is soaking", step.step),
                cleared_by: Some(format!("time, or a member who ends the soak of {}", step.id)),
                clears_at: Some(until.to_string()),
            });
        }
    }
    Ok(found)
}

fn approval_blocker(db: &mut impl StoreRead, what: &str, approval: &Approval) -> Result<BlockedBy, AppError> {
    let tally = tally(db, approval)?;
    let many = if tally.needed == 1 { "approval" } else { "approvals" };
    let short = if tally.is_reachable() { "" } else { "; too few members can approve" };
    let detail = format!("{what} needs {} {many}; {} so far{short}", tally.needed, tally.counted.len());
    Ok(BlockedBy {
        kind: BlockedKind::Approval,
        detail,
        cleared_by: Some(format!("{}, on {}", describe_approvers(&approval.rule), approval.id)),
        clears_at: approval.expires_at.map(|at| at.to_string()),
    })
}

fn unread_authors_blocker(stage: &str) -> BlockedBy {
    BlockedBy {
        kind: BlockedKind::Approval,
        detail: format!(
            "stage \"{stage}\" needs approvals; they are requested once the authors of the change have been read from its repository"
        ),
        cleared_by: None,
        clears_at: None,
    }
}

fn describe_approvers(rule: &ApprovalPolicy) -> String {
    let from: Vec<String> = rule.from.iter().map(ApproverSelector::to_string).collect();
    let who = if from.is_empty() { "any member who may decide".to_owned() } else { from.join(", ") };
    let except = if rule.self_approval { "" } else { " (except people who wrote, started or retried it)" };
    format!("{who}{except}")
}

fn pause_blocker(pause: &PromotionPause, stage: &str) -> BlockedBy {
    let why = pause.reason.as_ref().map(|reason| format!(" (\"{reason}\")")).unwrap_or_default();
    BlockedBy {
        kind: BlockedKind::PromotionPaused,
        detail: format!(
            "promotion into stage \"{stage}\" is paused since {} rolled it back at {}{why}",
            pause.by.name, pause.at
        ),
        cleared_by: Some("resuming the pipeline".into()),
        clears_at: None,
    }
}

fn stopped_blocker() -> BlockedBy {
    BlockedBy {
        kind: BlockedKind::PipelineStopped,
        detail: "the pipeline is stopped".into(),
        cleared_by: Some("resuming the pipeline".into()),
        clears_at: None,
    }
}
