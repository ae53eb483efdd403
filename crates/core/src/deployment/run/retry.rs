//! Retries a failed stage with the same plan. Earlier attempts are kept.

use std::collections::BTreeSet;

use super::draft::RunDraft;
use super::plan::Plan;
use super::state::{Run, StageRunStatus, StepRunStatus};
use crate::decision::{CommandRefusal, RuleDecision};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryStart {
    /// Runs only the steps that did not succeed.
    #[default]
    Failed,
    /// Runs all steps again.
    Start,
}

pub fn retry(
    run: &Run,
    plan: &Plan,
    name: &str,
    from: RetryStart,
    // Approval steps that succeeded but must be approved again, because their approval is no longer valid.
    asks_again: &BTreeSet<StepRunId>,
    now: Timestamp,
) -> Result<RuleDecision<()>, CommandRefusal> {
    let stage = run.find_stage(name)?;
    if run.stages[stage].status != StageRunStatus::Failed {
        let text = format!(
            "stage \"{name}\" did not fail: it is {}. Only a failed stage can be retried.",
            run.stages[stage].status.as_str()
        );
        return Err(CommandRefusal::InvalidState(text));
    }
    let mut draft = RunDraft::new(run, plan, now);
    let event = draft
        .stage_event(EventKind::StageRetried, stage)
        .with("from", if from == RetryStart::Start { "start" } else { "failed" });
    draft.record(event);
    // Cancelled stages, and the stages after them, are not retried.
    let is_cancelled = |later: &usize| run.stages[*later].status == StageRunStatus::Cancelled;
    let end = (stage..run.stages.len()).find(is_cancelled).unwrap_or(run.stages.len());
    for later in stage..end {
        let it = draft.stage(later);
        it.status = StageRunStatus::Pending;
        (it.failure, it.cancel, it.finished_at) = (None, None, None);
        let positions: Vec<usize> = run.stage_step_positions(later).collect();
        for at in positions {
            let has_succeeded = run.steps[at].status == StepRunStatus::Succeeded;
            let is_kept = has_succeeded && !asks_again.contains(&run.steps[at].id);
            if is_kept && from == RetryStart::Failed {
                continue;
            }
            let step = draft.step(at);
            (step.status, step.memory) = (StepRunStatus::Pending, None);
            (step.failures, step.losses, step.false_starts) = (0, 0, 0);
            (step.not_before, step.failure, step.started_at, step.finished_at) = (None, None, None, None);
            step.outputs.clear();
            step.artifacts.clear();
        }
    }
    Ok(draft.finish(()))
}
