//! Grants a step to a runner: the last check before the step has effects outside the server.

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
    /// Milliseconds without a heartbeat after which the server treats the runner as lost. The runner was told this
    /// value and stops its steps earlier.
    pub lost_ms: Option<i64>,
    /// The deployment has a bypass, so a closed window does not stop it.
    pub passes_gates: bool,
}

impl Run {
    /// Positions in `self.steps` of the steps that may be granted now.
    pub fn ready_steps(&self, now: Timestamp) -> Vec<usize> {
        let is_due = |it: &StepRun| {
            it.not_before.is_none_or(|at| at <= now) && it.overdue_at().is_none_or(|by| by > now)
        };
        self.grantable().filter(|at| is_due(&self.steps[*at])).collect()
    }

    /// The earliest time at which a step may be granted.
    pub fn next_ready_at(&self) -> Option<Timestamp> {
        let moments = self.grantable().map(|at| self.steps[at].not_before);
        moments.map(|at| at.unwrap_or(Timestamp::from_micros(0))).min()
    }

    fn grantable(&self) -> impl Iterator<Item = usize> + '_ {
        let stage = self.stages.iter().position(|stage| stage.status == StageRunStatus::Running);
        let steps = self.steps.iter().enumerate().filter(move |(_, step)| Some(step.stage) == stage);
        // Once a step has failed, no further step starts; the stage only waits for its running steps.
        let may_start = !stage.is_some_and(|stage| self.has_failed(stage));
        // A polling step has already started, so it must still be polled.
        let goes_on = move |it: &StepRun| may_start || it.is_polling();
        steps.filter(move |(_, it)| it.status == StepRunStatus::Ready && goes_on(it)).map(|(at, _)| at)
    }
}

/// Idempotent: a repeated request with the same nonce returns the same attempt.
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
    // The window may have closed since the stage was entered. Once a step has started, the stage continues regardless.
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
    // Later calls of the same attempt append no event.
    if attempt.calls == 1 {
        let event = draft.step_event(EventKind::StepStarted, at);
        draft.record(event);
    }
    Ok(draft.finish(attempt))
}
