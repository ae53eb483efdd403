//! Steps that never run on a runner: an approval waits for people, a soak for time. Their state is in rows, so it
//! survives a restart of the server.

use serde::Deserialize;
use serde_json::Value;

use super::draft::Draft;
use super::park;
use super::plan::{Plan, PlannedStep};
use super::report;
use super::state::{Run, StageStatus, StepRun, StepStatus};
use crate::decision::{Decision, Refusal};
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;
use crate::expression::fill_value;
use crate::id::StepRunId;
use crate::name::Reason;
use crate::pipeline::limits::APPROVALS_MAX;
use crate::pipeline::model::{Approver, Requires, StepType};
use crate::pipeline::seconds::Seconds;
use crate::step::Builtin;
use crate::time::Timestamp;

/// What an approval step asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub rule: Requires,
    pub message: Option<String>,
}

#[derive(Deserialize)]
struct ApprovalParams {
    #[serde(default = "one")]
    approvals: u32,
    #[serde(default)]
    from: Vec<Approver>,
    #[serde(default = "yes")]
    self_approval: bool,
    timeout: Option<Seconds>,
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
    duration: Seconds,
}

impl StepRun {
    /// Whether the step waits for people or for time. A step with an unknown outcome also waits, but has a failure.
    pub fn is_held(&self) -> bool {
        self.status == StepStatus::Waiting && self.failure.is_none()
    }
}

impl PlannedStep {
    pub fn is_approval(&self) -> bool {
        self.kind == StepType::Builtin(Builtin::Approval)
    }

    pub fn is_soak(&self) -> bool {
        self.kind == StepType::Builtin(Builtin::Soak)
    }
}

impl Run {
    /// When the next soak ends or the next polling step times out.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let soaks = self.held().filter_map(|at| self.steps[at].not_before);
        soaks.chain(self.steps.iter().filter_map(|step| step.overdue_at())).min()
    }

    /// Positions of steps that wait for people or for time, in stages that are not cancelling.
    pub fn held(&self) -> impl Iterator<Item = usize> + '_ {
        let goes_on = |step: &StepRun| {
            matches!(self.stages[step.stage].status, StageStatus::Running | StageStatus::Waiting)
        };
        let steps = self.steps.iter().enumerate();
        steps.filter(move |(_, step)| step.is_held() && goes_on(step)).map(|(at, _)| at)
    }
}

impl Plan {
    pub fn step(&self, step: &StepRun) -> &PlannedStep {
        &self.stages[step.stage].steps[step.index]
    }

    /// Whether the step waits for people.
    pub fn asks(&self, step: &StepRun) -> bool {
        self.step(step).is_approval() || step.asks().is_some()
    }

    /// `Err` is a message for users.
    pub fn question(&self, run: &Run, at: usize) -> Result<Question, String> {
        if let Some(asks) = run.steps[at].asks() {
            let (approvals, from, self_approval, timeout) = (1, Vec::new(), true, None);
            let rule = Requires { approvals, from, self_approval, timeout };
            return Ok(Question { rule, message: asks.context.clone() });
        }
        let params: ApprovalParams = self.filled(run, at)?;
        if !(1..=APPROVALS_MAX).contains(&params.approvals) {
            return Err(format!("approvals: must be from 1 to {APPROVALS_MAX}"));
        }
        let ApprovalParams { approvals, from, self_approval, timeout, message } = params;
        Ok(Question { rule: Requires { approvals, from, self_approval, timeout }, message })
    }

    fn filled<T: serde::de::DeserializeOwned>(&self, run: &Run, at: usize) -> Result<T, String> {
        let step = &run.steps[at];
        let params = Value::Object(self.step(step).params.clone());
        let filled = fill_value(&params, &self.contexts_for(run, step.stage));
        let filled = filled.map_err(|error| format!("params: {error}"))?;
        serde_json::from_value(filled).map_err(|error| format!("params: {error}"))
    }
}

/// Starts the wait of an approval or soak step. False if the step needs a runner.
pub(super) fn hold(draft: &mut Draft<'_>, at: usize) -> bool {
    let (plan, now) = (draft.plan, draft.now);
    let planned = plan.step(&draft.run.steps[at]);
    let until = if planned.is_soak() {
        let params = plan.filled::<SoakParams>(&draft.run, at);
        params.map(|it| Some(now.plus_seconds(i64::try_from(it.duration.as_secs()).unwrap_or(i64::MAX))))
    } else if planned.is_approval() {
        plan.question(&draft.run, at).map(|_| None)
    } else {
        return false;
    };
    match until {
        Err(detail) => report::fail(draft, at, Failure { cause: Cause::NotRunnable, detail }),
        Ok(until) => {
            let event = draft.about_step(EventKind::StepStarted, at);
            draft.record(event);
            let step = draft.step(at);
            (step.status, step.not_before, step.started_at) = (StepStatus::Waiting, until, Some(now));
        }
    }
    true
}

/// Ends soaks that are over and polling steps that have timed out.
pub fn wake(run: &Run, plan: &Plan, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    let due: Vec<usize> =
        run.held().filter(|at| run.steps[*at].not_before.is_some_and(|until| until <= now)).collect();
    for at in due {
        pass(&mut draft, at);
    }
    park::time_out(&mut draft);
    draft.finish(())
}

/// Ends a soak early with success.
pub fn end_soak(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    reason: Option<&Reason>,
    now: Timestamp,
) -> Result<Decision<()>, Refusal> {
    let at = soaking(run, plan, step)?;
    let mut draft = Draft::of(run, plan, now);
    tell_end(&mut draft, at, "passed", reason);
    pass(&mut draft, at);
    Ok(draft.finish(()))
}

/// Ends a soak with a failure; `by` is the name of the person.
pub fn reject_soak(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    by: &str,
    reason: Option<&Reason>,
    now: Timestamp,
) -> Result<Decision<()>, Refusal> {
    let at = soaking(run, plan, step)?;
    let mut draft = Draft::of(run, plan, now);
    tell_end(&mut draft, at, "rejected", reason);
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let failure = Failure { cause: Cause::SoakRejected, detail: format!("rejected by {by}{why}") };
    report::fail(&mut draft, at, failure);
    Ok(draft.finish(()))
}

/// The approval was granted; `by` is the name of the last approver. No change if the step is not waiting any more.
pub fn approved(run: &Run, plan: &Plan, step: StepRunId, by: &str, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    match asking(run, plan, step) {
        Some(at) if run.steps[at].asks().is_some() => park::agreed(&mut draft, at, by),
        Some(at) => pass(&mut draft, at),
        None => {}
    }
    draft.finish(())
}

/// The approval was rejected or expired.
pub fn refused(run: &Run, plan: &Plan, step: StepRunId, failure: Failure, now: Timestamp) -> Decision<()> {
    let mut draft = Draft::of(run, plan, now);
    if let Some(at) = asking(run, plan, step) {
        report::fail(&mut draft, at, failure);
    }
    draft.finish(())
}

fn asking(run: &Run, plan: &Plan, step: StepRunId) -> Option<usize> {
    run.held().find(|at| run.steps[*at].id == step && plan.asks(&run.steps[*at]))
}

fn soaking(run: &Run, plan: &Plan, step: StepRunId) -> Result<usize, Refusal> {
    let found = run.held().find(|at| run.steps[*at].id == step && plan.step(&run.steps[*at]).is_soak());
    found.ok_or_else(|| Refusal::InvalidState("this step is not soaking".into()))
}

fn tell_end(draft: &mut Draft<'_>, at: usize, outcome: &str, reason: Option<&Reason>) {
    let event = draft.about_step(EventKind::SoakEnded, at);
    draft.record(event.with("outcome", outcome).with_some("reason", reason));
}

fn pass(draft: &mut Draft<'_>, at: usize) {
    let now = draft.now;
    let event = draft.about_step(EventKind::StepSucceeded, at);
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.finished_at, step.not_before) = (StepStatus::Succeeded, Some(now), None);
}
