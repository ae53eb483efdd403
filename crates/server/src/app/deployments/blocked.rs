//! What a deployment waits for, in words.

use berth_api::deployment::{BlockedBy, BlockedKind};
use berth_core::deployment::{Blocked, Deployment, obstacles};
use berth_core::environment::Lock;
use berth_core::pipeline::state;
use berth_core::rollout::Rollout;
use berth_core::run::enter::{Entry, entry, entry_back};
use berth_core::run::{Gate, StepStatus};
use berth_core::stage::Pause;
use berth_store::Read;
use berth_store::query::deployments::Either;
use berth_store::query::runs;
use berth_store::records::pipeline;
use berth_store::records::plan::{self, Build, BuildKey};
use berth_store::records::stage as stages;

use crate::engine::{Head, Whole, is_for};
use crate::error::AppError;

/// One that has not begun in its environment.
pub(super) fn in_lock(lock: &Lock, it: &Deployment) -> Vec<BlockedBy> {
    let deadline =
        lock.session.as_ref().and_then(|session| session.drain.as_ref()).map(|drain| drain.deadline);
    let shown = |blocked: Blocked| match blocked {
        Blocked::PipelineStopped => stopped(),
        Blocked::EnvironmentContested { pending } => BlockedBy {
            kind: BlockedKind::EnvironmentContested,
            detail: format!(
                "waits until {} of a former session is known to have stopped",
                if pending.len() == 1 {
                    "a deployment".to_owned()
                } else {
                    format!("{} deployments", pending.len())
                }
            ),
            cleared_by: pending.first().map(|id| format!("the end of {id}")),
            clears_at: deadline.map(|at| at.to_string()),
        },
        Blocked::EnvironmentResetting { reset } => BlockedBy {
            kind: BlockedKind::EnvironmentResetting,
            detail: "waits until the environment has been reset".into(),
            cleared_by: Some(format!("the end of {reset}")),
            clears_at: None,
        },
        Blocked::Queue { behind } => BlockedBy {
            kind: BlockedKind::Queue,
            detail: "waits for an earlier deployment of the same session".into(),
            cleared_by: Some(format!("the end of {behind}")),
            clears_at: None,
        },
    };
    obstacles(lock, it).into_iter().map(shown).collect()
}

/// A rollout that has not begun.
pub(super) fn before_begin(db: &mut impl Read, it: &Rollout) -> Result<Vec<BlockedBy>, AppError> {
    let found = pipeline::by_id(db, it.pipeline)?;
    let is_stopped = found.is_some_and(|found| matches!(found.status, state::Status::Stopped { .. }));
    Ok(if is_stopped && !it.status.is_final() { vec![stopped()] } else { Vec::new() })
}

/// One that has not begun, while another deployment builds the same commit.
pub(super) fn by_build(db: &mut impl Read, it: &Either) -> Result<Option<BlockedBy>, AppError> {
    let (pipeline, commit, definition_hash, id) = match it {
        Either::Environment(it) => (it.pipeline, it.commit.as_str(), &it.definition_hash, it.id),
        Either::Stages(it) => (it.pipeline, it.commit.as_str(), &it.definition_hash, it.id),
    };
    let found = plan::build(db, BuildKey { pipeline, commit, definition_hash })?;
    Ok(match found {
        Some(Build::Begun(other)) if other != id => Some(BlockedBy {
            kind: BlockedKind::Queue,
            detail: "waits for the build of the same commit, which another deployment does".into(),
            cleared_by: Some(format!("the end of the build of {other}")),
            clears_at: None,
        }),
        _ => None,
    })
}

/// One that has begun. `labels` are those of this server's own runner, if it has one.
pub(super) fn in_run(
    db: &mut impl Read,
    whole: &Whole,
    labels: Option<&[String]>,
) -> Result<Vec<BlockedBy>, AppError> {
    let mut found = Vec::new();
    if whole.run.status().is_final() {
        return Ok(found);
    }
    let waits = |status: StepStatus| whole.run.steps.iter().filter(move |step| step.status == status);
    let is_waiting = waits(StepStatus::Ready).next().is_some() || whole.run.queued_for().is_some();
    if whole.head.is_paused() && is_waiting {
        found.push(stopped());
    }
    for step in waits(StepStatus::Waiting) {
        found.push(BlockedBy {
            kind: BlockedKind::UnknownOutcome,
            detail: format!("nobody knows whether step \"{}\" took effect", step.step),
            cleared_by: Some(format!("somebody who may operate deployments and resolves {}", step.id)),
            clears_at: None,
        });
    }
    if let (Some((index, stage)), Head::Stages { rollout, .. }) = (whole.run.queued_for(), &whole.head) {
        found.extend(whole.plan.stages[index].gates.iter().map(|gate| gated(gate, stage)));
        let is_rollback = rollout.trigger.takes_back().is_some();
        let pause = stages::by_name(db, rollout.pipeline, stage)?.pause.filter(|_| !is_rollback);
        found.extend(pause.map(|pause| paused(&pause, stage)));
        let others = runs::contenders(db, rollout.pipeline, stage, rollout.id)?;
        let said =
            if is_rollback { entry_back(rollout.number, &others) } else { entry(rollout.number, &others) };
        if let Entry::Behind(other) = said {
            found.push(BlockedBy {
                kind: BlockedKind::EarlierStage,
                detail: format!("another deployment is in stage \"{stage}\""),
                cleared_by: Some(format!("the end of {other} in that stage")),
                clears_at: None,
            });
        }
    }
    let ready = whole.run.steps.iter().enumerate().filter(|(_, step)| step.status == StepStatus::Ready);
    for (at, step) in ready {
        if !labels.is_some_and(|labels| is_for(whole, at, labels)) {
            found.push(BlockedBy {
                kind: BlockedKind::NoRunner,
                detail: match labels {
                    Some(_) => format!("no runner has what step \"{}\" wants in runs_on", step.step),
                    None => "this server runs no steps, and there is no other runner".to_owned(),
                },
                cleared_by: None,
                clears_at: None,
            });
        }
    }
    Ok(found)
}

fn gated(gate: &Gate, stage: &str) -> BlockedBy {
    let (kind, detail) = match gate {
        Gate::Approvals(count) => (
            BlockedKind::Approval,
            format!(
                "stage \"{stage}\" needs {count} {}, which this version cannot ask for yet",
                if *count == 1 { "approval" } else { "approvals" }
            ),
        ),
        Gate::Window => (
            BlockedKind::Window,
            format!("stage \"{stage}\" has a window, which this version cannot look at yet"),
        ),
    };
    BlockedBy { kind, detail, cleared_by: None, clears_at: None }
}

fn paused(pause: &Pause, stage: &str) -> BlockedBy {
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

fn stopped() -> BlockedBy {
    BlockedBy {
        kind: BlockedKind::PipelineStopped,
        detail: "the pipeline is stopped".into(),
        cleared_by: Some("resuming the pipeline".into()),
        clears_at: None,
    }
}
