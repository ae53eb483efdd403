//! Cancels a run or one of its stages: queued steps never start, running steps are told to stop.

use super::draft::Draft;
use super::plan::Plan;
use super::state::{Run, StageStatus};
use crate::decision::{Decision, Refusal};
use crate::deployment::Cancel;
use crate::event::EventKind;
use crate::time::Timestamp;

/// Cancels all stages. Idempotent.
pub fn cancel(run: &Run, plan: &Plan, cancel: &Cancel, now: Timestamp) -> Decision<()> {
    let current = run.stages.iter().position(|stage| !stage.status.is_final());
    let mut draft = Draft::of(run, plan, now);
    if let Some(stage) = current {
        stop(&mut draft, stage, cancel);
    }
    draft.finish(())
}

/// Cancels one stage and skips those after it.
pub fn cancel_stage(
    run: &Run,
    plan: &Plan,
    name: &str,
    cancel: &Cancel,
    now: Timestamp,
) -> Result<Decision<()>, Refusal> {
    let stage = run.stage_named(name)?;
    let mut draft = Draft::of(run, plan, now);
    match run.stages[stage].status {
        StageStatus::Cancelled | StageStatus::Cancelling => {}
        status @ (StageStatus::Succeeded | StageStatus::Failed | StageStatus::Skipped) => {
            let how = if status == StageStatus::Skipped { "was skipped" } else { status.as_str() };
            return Err(Refusal::InvalidState(format!("stage \"{name}\" has ended: it {how}")));
        }
        _ => stop(&mut draft, stage, cancel),
    }
    Ok(draft.finish(()))
}

fn stop(draft: &mut Draft<'_>, stage: usize, cancel: &Cancel) {
    if draft.run.stages[stage].status == StageStatus::Cancelling {
        return;
    }
    let it = draft.stage(stage);
    (it.status, it.cancel) = (StageStatus::Cancelling, Some(cancel.clone()));
    let event = draft
        .about_stage(EventKind::StageCancelling, stage)
        .with("cause", cancel.cause.as_str())
        .with_some("reason", cancel.reason.as_ref());
    draft.record(event);
    // A stage that has not started has nothing to stop, so it ends here.
    super::advance::settle_cancelled(draft, stage);
}

impl Run {
    pub(super) fn stage_named(&self, name: &str) -> Result<usize, Refusal> {
        let found = self.stages.iter().position(|stage| stage.name == name);
        found.ok_or(Refusal::NoSuchStage)
    }
}
