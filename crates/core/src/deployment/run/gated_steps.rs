//! Steps that never run on a runner: an approval waits for people, a soak for a fixed time. Their state is stored in
//! the database, so it survives a restart of the server.

use serde::Deserialize;
use serde_json::Value;

use super::draft::RunDraft;
use super::park;
use super::plan::{Plan, StepPlan};
use super::report;
use super::state::{Run, StageRunStatus, StepRun, StepRunStatus};
use crate::decision::{CommandRefusal, RuleDecision};
use crate::deployment::{ExecutionFailure, FailureCode};
use crate::event::EventKind;
use crate::expression::fill_value;
use crate::id::StepRunId;
use crate::name::Reason;
use crate::pipeline::limits::APPROVALS_MAX;
use crate::pipeline::model::{ApprovalPolicy, ApproverSelector, StepType};
use crate::pipeline::seconds::DurationSeconds;
use crate::step::BuiltinStepType;
use crate::time::Timestamp;

/// The rule and message of an approval step, with expressions evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalTerms {
    pub rule: ApprovalPolicy,
    pub message: Option<String>,
}

#[derive(Deserialize)]
struct ApprovalParams {
    #[serde(default = "one")]
    approvals: u32,
    #[serde(default)]
    from: Vec<ApproverSelector>,
    #[serde(default = "yes")]
    self_approval: bool,
    timeout: Option<DurationSeconds>,
    message: Option<String>,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct SoakParams {
    duration: DurationSeconds,
}

impl StepRun {
    /// Whether the step waits for people or for time. A step whose outcome is unknown also has the status `Waiting`,
    /// but its `failure` is set.
    pub fn is_gated(&self) -> bool {
        self.status == StepRunStatus::Waiting && self.failure.is_none()
    }
}

impl StepPlan {
    pub fn is_approval(&self) -> bool {
        self.kind == StepType::Builtin(BuiltinStepType::Approval)
    }

    pub fn is_soak(&self) -> bool {
        self.kind == StepType::Builtin(BuiltinStepType::Soak)
    }
}

impl Run {
    /// When the next soak ends or the next polling step times out.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let soaks = self.gated_steps().filter_map(|at| self.steps[at].not_before);
        soaks.chain(self.steps.iter().filter_map(|step| step.overdue_at())).min()
    }

    /// Positions of steps that wait for people or for time, in stages that are not cancelling.
    pub fn gated_steps(&self) -> impl Iterator<Item = usize> + '_ {
        let goes_on = |step: &StepRun| {
            matches!(self.stages[step.stage].status, StageRunStatus::Running | StageRunStatus::Waiting)
        };
        let steps = self.steps.iter().enumerate();
        steps.filter(move |(_, step)| step.is_gated() && goes_on(step)).map(|(at, _)| at)
    }
}

impl Plan {
    pub fn step(&self, step: &StepRun) -> &StepPlan {
        &self.stages[step.stage].steps[step.index]
    }

    /// Whether the step waits for people.
    pub fn needs_approval(&self, step: &StepRun) -> bool {
        self.step(step).is_approval() || step.pending_approval().is_some()
    }

    /// The terms of an approval step. `Err` is a message for users.
    pub fn approval_terms(&self, run: &Run, at: usize) -> Result<ApprovalTerms, String> {
        if let Some(asks) = run.steps[at].pending_approval() {
            let (approvals, from, self_approval, timeout) = (1, Vec::new(), true, None);
            let rule = ApprovalPolicy { approvals, from, self_approval, timeout };
            return Ok(ApprovalTerms { rule, message: asks.context.clone() });
        }
        let params: ApprovalParams = self.evaluate_params(run, at)?;
        if !(1..=APPROVALS_MAX).contains(&params.approvals) {
            return Err(format!("approvals: must be from 1 to {APPROVALS_MAX}"));
        }
        let ApprovalParams { approvals, from, self_approval, timeout, message } = params;
        Ok(ApprovalTerms { rule: ApprovalPolicy { approvals, from, self_approval, timeout }, message })
    }

    fn evaluate_params<T: serde::de::DeserializeOwned>(&self, run: &Run, at: usize) -> Result<T, String> {
        let step = &run.steps[at];
        let params = Value::Object(self.step(step).params.clone());
        let filled = fill_value(&params, &self.contexts_for(run, step.stage));
        let filled = filled.map_err(|error| format!("params: {error}"))?;
        serde_json::from_value(filled).map_err(|error| format!("params: {error}"))
    }
}

/// Starts waiting if this is an approval or soak step. Returns false if the step needs a runner.
pub(super) fn start_wait(draft: &mut RunDraft<'_>, at: usize) -> bool {
    let (plan, now) = (draft.plan, draft.now);
    let planned = plan.step(&draft.run.steps[at]);
    let until = if planned.is_soak() {
        let params = plan.evaluate_params::<SoakParams>(&draft.run, at);
        params.map(|it| Some(now.plus_seconds(i64::try_from(it.duration.as_secs()).unwrap_or(i64::MAX))))
    } else if planned.is_approval() {
        plan.approval_terms(&draft.run, at).map(|_| None)
    } else {
        return false;
    };
    match until {
        Err(detail) => {
            report::fail_step(draft, at, ExecutionFailure { cause: FailureCode::NotRunnable, detail });
        }
        Ok(until) => {
            let event = draft.step_event(EventKind::StepStarted, at);
            draft.record(event);
            let step = draft.step(at);
            (step.status, step.not_before, step.started_at) = (StepRunStatus::Waiting, until, Some(now));
        }
    }
    true
}

/// Completes soaks whose time is over and fails polling steps that have timed out.
pub fn wake(run: &Run, plan: &Plan, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    let due: Vec<usize> =
        run.gated_steps().filter(|at| run.steps[*at].not_before.is_some_and(|until| until <= now)).collect();
    for at in due {
        succeed_step(&mut draft, at);
    }
    park::time_out(&mut draft);
    draft.finish(())
}

/// Ends a soak early, as succeeded.
pub fn end_soak(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    reason: Option<&Reason>,
    now: Timestamp,
) -> Result<RuleDecision<()>, CommandRefusal> {
    let at = find_soak(run, plan, step)?;
    let mut draft = RunDraft::new(run, plan, now);
    record_soak_end(&mut draft, at, "passed", reason);
    succeed_step(&mut draft, at);
    Ok(draft.finish(()))
}

/// Ends a soak as failed; `by` is the name of the person who rejected it.
pub fn reject_soak(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    by: &str,
    reason: Option<&Reason>,
    now: Timestamp,
) -> Result<RuleDecision<()>, CommandRefusal> {
    let at = find_soak(run, plan, step)?;
    let mut draft = RunDraft::new(run, plan, now);
    record_soak_end(&mut draft, at, "rejected", reason);
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let failure =
        ExecutionFailure { cause: FailureCode::SoakRejected, detail: format!("rejected by {by}{why}") };
    report::fail_step(&mut draft, at, failure);
    Ok(draft.finish(()))
}

/// Continues a step whose approval was granted; `by` is the name of the last approver. Changes nothing if the step is
/// no longer waiting.
pub fn pass_approval(run: &Run, plan: &Plan, step: StepRunId, by: &str, now: Timestamp) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    match find_awaiting_approval(run, plan, step) {
        Some(at) if run.steps[at].pending_approval().is_some() => park::resume_approved(&mut draft, at, by),
        Some(at) => succeed_step(&mut draft, at),
        None => {}
    }
    draft.finish(())
}

/// Fails a step whose approval was rejected or expired.
pub fn fail_approval(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    failure: ExecutionFailure,
    now: Timestamp,
) -> RuleDecision<()> {
    let mut draft = RunDraft::new(run, plan, now);
    if let Some(at) = find_awaiting_approval(run, plan, step) {
        report::fail_step(&mut draft, at, failure);
    }
    draft.finish(())
}

fn find_awaiting_approval(run: &Run, plan: &Plan, step: StepRunId) -> Option<usize> {
    run.gated_steps().find(|at| run.steps[*at].id == step && plan.needs_approval(&run.steps[*at]))
}

fn find_soak(run: &Run, plan: &Plan, step: StepRunId) -> Result<usize, CommandRefusal> {
    let found =
        run.gated_steps().find(|at| run.steps[*at].id == step && plan.step(&run.steps[*at]).is_soak());
    found.ok_or_else(|| CommandRefusal::InvalidState("this step is not soaking".into()))
}

fn record_soak_end(draft: &mut RunDraft<'_>, at: usize, outcome: &str, reason: Option<&Reason>) {
    let event = draft.step_event(EventKind::SoakEnded, at);
    draft.record(event.with("outcome", outcome).with_some("reason", reason));
}

fn succeed_step(draft: &mut RunDraft<'_>, at: usize) {
    let now = draft.now;
    let event = draft.step_event(EventKind::StepSucceeded, at);
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.finished_at, step.not_before) = (StepRunStatus::Succeeded, Some(now), None);
}
