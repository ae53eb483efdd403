//! Enter: a stage belongs to one deployment at a time. Who waits for it is let in when it is free.

use super::advance::{fail_for, skip_from, start};
use super::draft::Draft;
use super::plan::Plan;
use super::state::{Run, StageStatus};
use crate::decision::Decision;
use crate::deployment::Failure;
use crate::id::DeploymentId;
use crate::plant::{Plant, planted};
use crate::time::Timestamp;

/// Another deployment of the same pipeline, and how it stands in the stage in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    pub deployment: DeploymentId,
    pub number: i64,
    pub status: StageStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It may go in, or is in.
    Free,
    Behind(DeploymentId),
    /// A newer one waits for the same stage: this one will never be needed.
    SupersededBy(DeploymentId),
}

impl Run {
    /// The stage it waits for.
    pub fn queued_for(&self) -> Option<(usize, &str)> {
        let found = self.stages.iter().position(|stage| stage.status == StageStatus::Queued)?;
        Some((found, self.stages[found].name.as_str()))
    }

    /// The stage that was entered and in which nothing has begun since.
    pub fn unbegun(&self) -> Option<usize> {
        let stage = self.stages.iter().position(|stage| stage.status == StageStatus::Running)?;
        let since = self.stages[stage].started_at;
        let has_begun = self.steps.iter().any(|step| step.stage == stage && step.started_at >= since);
        (!has_begun).then_some(stage)
    }
}

/// A deployment that waits for a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    pub number: i64,
    /// Somebody has approved it for this stage, or has said that it passes every gate: a newer one does not take that
    /// away.
    pub is_kept: bool,
}

/// `others` are all others of its pipeline that have not ended.
pub fn entry(waits: Waits, others: &[Contender]) -> Entry {
    let Waits { number, is_kept } = waits;
    let is_newer = |it: &&Contender| match planted(Plant::OlderSupersedes) {
        true => it.number < number,
        false => it.number > number,
    };
    let newer = others.iter().filter(|it| it.status == StageStatus::Queued).filter(is_newer);
    if let Some(newest) = newer.max_by_key(|it| it.number).filter(|_| !is_kept) {
        return Entry::SupersededBy(newest.deployment);
    }
    let is_inside = |it: &&Contender| match planted(Plant::EntersBesideWaiting) {
        true => it.status == StageStatus::Running,
        false => it.status.is_open(),
    };
    match others.iter().find(is_inside) {
        Some(inside) => Entry::Behind(inside.deployment),
        None => Entry::Free,
    }
}

/// The caller has seen that the stage is free.
pub fn enter(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        start(&mut draft, stage);
    }
    draft.finish(())
}

/// Somebody said no, or nobody said yes in time: the stage fails before anything of it has begun.
pub fn refused(run: &Run, plan: &Plan, failure: Failure, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        fail_for(&mut draft, stage, Some(failure));
    }
    draft.finish(())
}

/// A newer one has overtaken it: what it waited for it will never do.
pub fn overtaken(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some((stage, _)) = run.queued_for() {
        skip_from(&mut draft, stage);
    }
    draft.finish(())
}
