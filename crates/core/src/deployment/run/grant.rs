//! Grants a step to a runner: the last check before anything happens outside.

use super::draft::RunDraft;
use super::plan::Plan;
use super::state::{Attempt, Run, StageRunStatus, StepRun, StepRunStatus};
use crate::decision::{CommandRefusal, RuleDecision};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::time::Timestamp;

#[derive(Debug, Clone)]
pub struct GrantStep {
    pub step: StepRunId,
    pub runner: String,
    pub nonce: String,
    /// The silence after which the runner was told to stop its work.
    pub lost_ms: Option<i64>,
    /// The deployment ignores windows.
    pub passes_gates: bool,
}

impl Run {
    /// Positions of the steps that may be granted now.
    pub fn ready_steps(&self, now: Timestamp) -> Vec<usize> {
        let is_due = |it: &StepRun| {
            it.not_before.is_none_or(|at| at <= now) && it.overdue_at().is_none_or(|by| by > now)
        };
        self.grantable().filter(|at| is_due(&self.steps[*at])).collect()
    }

    /// When the next step may be granted.
    pub fn next_ready_at(&self) -> Option<Timestamp> {
        let moments = self.grantable().map(|at| self.steps[at].not_before);
        moments.map(|at| at.unwrap_or(Timestamp::from_micros(0))).min()
    }

    fn grantable(&self) -> impl Iterator<Item = usize> + '_ {
        let stage = self.stages.iter().position(|stage| stage.status == StageRunStatus::Running);
        let steps = self.steps.iter().enumerate().filter(move |(_, step)| Some(step.stage) == stage);
        // A stage with a failed step only waits for its running steps.
        let may_start = !stage.is_some_and(|stage| self.has_failed(stage));
        // A polling step is already running and must be polled.
        let goes_on = move |it: &StepRun| may_start || it.is_polling();
        steps.filter(move |(_, it)| it.status == StepRunStatus::Ready && goes_on(it)).map(|(at, _)| at)
    }
}

/// Idempotent by nonce.
pub fn grant(
    run: &Run,
    plan: &Plan,
    cmd: &GrantStep,
    now: Timestamp,
) -> Result<RuleDecision<Attempt>, CommandRefusal> {
    let refused = |text: &str| CommandRefusal::InvalidState(text.to_owned());
    let at = run.position(cmd.step).ok_or_else(|| refused("there is no such step"))?;
    if let Some(live) = &run.steps[at].live {
        if live.nonce != cmd.nonce {
            return Err(refused("another attempt has it"));
        }
        return Ok(RuleDecision::without_changes(live.clone()));
    }
    if !run.ready_steps(now).contains(&at) {
        return Err(refused("it has to wait"));
    }
    // A window may have closed since the stage was entered. Started steps continue.
    let stage = run.steps[at].stage;
    let is_shut =
        || run.entered_unstarted_stage() == Some(stage) && plan.stages[stage].closed_until(now).is_some();
    if !cmd.passes_gates && run.steps[at].live.is_none() && is_shut() {
        return Err(refused("the deployment window of its stage is closed"));
    }
    let mut draft = RunDraft::new(run, plan, now);
    let attempt = draft.open_attempt(at, cmd);
    let step = draft.step(at);
    step.status = StepRunStatus::Running;
    (step.not_before, step.failure, step.finished_at) = (None, None, None);
    step.started_at = step.started_at.or(Some(now));
    // All calls of one attempt count as one start.
    if attempt.calls == 1 {
        let event = draft.step_event(EventKind::StepStarted, at);
        draft.record(event);
    }
    Ok(draft.finish(attempt))
}
