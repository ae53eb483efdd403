//! Cancels a run or one of its stages: queued steps never start, and the runners of running steps are told to stop.

use super::draft::RunDraft;
use super::plan::Plan;
use super::state::{Run, StageRunStatus};
use crate::decision::{CommandRefusal, RuleDecision};
use crate::deployment::CancelRequest;
use crate::event::EventKind;
use crate::time::Timestamp;

/// Cancels all stages. Idempotent.
pub fn cancel(run: &Run, plan: &Plan, cancel: &CancelRequest, now: Timestamp) -> RuleDecision<()> {
    let current = run.stages.iter().position(|stage| !stage.status.is_final());
    let mut draft = RunDraft::new(run, plan, now);
    if let Some(stage) = current {
        start_cancelling(&mut draft, stage, cancel);
    }
    draft.finish(())
}

/// Cancels one stage and skips the stages after it.
pub fn cancel_stage(
    run: &Run,
    plan: &Plan,
    name: &str,
    cancel: &CancelRequest,
    now: Timestamp,
) -> Result<RuleDecision<()>, CommandRefusal> {
    let stage = run.find_stage(name)?;
    let mut draft = RunDraft::new(run, plan, now);
    match run.stages[stage].status {
        StageRunStatus::Cancelled | StageRunStatus::Cancelling => {}
        status @ (StageRunStatus::Succeeded | StageRunStatus::Failed | StageRunStatus::Skipped) => {
            let how = if status == StageRunStatus::Skipped { "was skipped" } else { status.as_str() };
            return Err(CommandRefusal::InvalidState(format!("stage \"{name}\" has ended: it {how}")));
        }
        _ => start_cancelling(&mut draft, stage, cancel),
    }
    Ok(draft.finish(()))
}

fn start_cancelling(draft: &mut RunDraft<'_>, stage: usize, cancel: &CancelRequest) {
    if draft.run.stages[stage].status == StageRunStatus::Cancelling {
        return;
    }
    let it = draft.stage(stage);
    (it.status, it.cancel) = (StageRunStatus::Cancelling, Some(cancel.clone()));
    let event = draft
        .stage_event(EventKind::StageCancelling, stage)
        .with("cause", cancel.cause.as_str())
        .with_some("reason", cancel.reason.as_ref());
    draft.record(event);
    // A stage that has not started has nothing to stop, so it ends at once.
    super::advance::settle_cancelled(draft, stage);
}

impl Run {
    pub(super) fn find_stage(&self, name: &str) -> Result<usize, CommandRefusal> {
        let found = self.stages.iter().position(|stage| stage.name == name);
        found.ok_or(CommandRefusal::NoSuchStage)
    }
}
