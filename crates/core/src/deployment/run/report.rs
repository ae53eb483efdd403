//! Applies the outcome of an attempt to the run.

use super::draft::RunDraft;
use super::limits::{ATTEMPTS_MAX, LOST_RETRIES_MAX, NEVER_STARTED_MAX, NEVER_STARTED_PAUSE_S};
use super::park;
use super::plan::{Plan, StepPlan};
use super::state::{AttemptOutcome, Run, StageRunStatus, StepRun, StepRunStatus};
use crate::decision::RuleDecision;
use crate::deployment::environment::report::RunnerOrder;
use crate::deployment::{ExecutionFailure, FailureCode};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::step::OnLost;
use crate::time::Timestamp;

/// The order that a runner gets in response to its heartbeat.
pub fn order(run: &Run, step: StepRunId, nonce: &str) -> RunnerOrder {
    let found = run.steps.iter().find(|it| it.id == step);
    match found.filter(|it| it.live.as_ref().is_some_and(|live| live.nonce == nonce)) {
        None => RunnerOrder::Stale,
        Some(it) if run.stages[it.stage].status == StageRunStatus::Cancelling => RunnerOrder::Cancel,
        Some(_) => RunnerOrder::Continue,
    }
}

/// Applies the outcome that a runner reports. Returns `Stale` if the attempt was cancelled or has already ended.
/// Whatever the runner of a cancelled attempt reports, the step ends as cancelled.
pub fn report(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    nonce: &str,
    outcome: AttemptOutcome,
    now: Timestamp,
) -> RuleDecision<RunnerOrder> {
    let order = order(run, step, nonce);
    let Some(at) = run.position(step).filter(|_| order != RunnerOrder::Stale) else {
        return RuleDecision::without_changes(RunnerOrder::Stale);
    };
    let mut draft = RunDraft::new(run, plan, now);
    if order == RunnerOrder::Continue && park::repeat_call(&mut draft, at, &outcome) {
        return draft.finish(order);
    }
    let is_under_way = run.steps[at].memory.is_some();
    draft.close_attempt(at, outcome.clone());
    match order {
        RunnerOrder::Cancel => cancel_step(&mut draft, at, &outcome),
        // The work that the step started elsewhere may still be running, so there is no retry unless the step itself
        // reported a failure.
        _ if is_under_way && is_missing_answer(&outcome) => give_up(&mut draft, at, outcome),
        _ => apply_outcome(&mut draft, at, outcome),
    }
    let answer = if order == RunnerOrder::Cancel { RunnerOrder::Stale } else { order };
    draft.finish(answer)
}

fn is_missing_answer(outcome: &AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::Failed { failure, .. } if failure.cause != FailureCode::StepFailed)
}

fn give_up(draft: &mut RunDraft<'_>, at: usize, outcome: AttemptOutcome) {
    if let AttemptOutcome::Failed { failure, .. } = outcome {
        draft.step(at).failures += 1;
        fail_step(draft, at, failure);
    }
}

fn cancel_step(draft: &mut RunDraft<'_>, at: usize, outcome: &AttemptOutcome) {
    let now = draft.now;
    let step = draft.step(at);
    (step.status, step.finished_at) = (StepRunStatus::Cancelled, Some(now));
    let kind = match outcome {
        AttemptOutcome::Succeeded { .. } => EventKind::FinishedAfterCancel,
        _ => EventKind::StepCancelled,
    };
    let event = draft.step_event(kind, at);
    draft.record(event);
}

fn apply_outcome(draft: &mut RunDraft<'_>, at: usize, outcome: AttemptOutcome) {
    let now = draft.now;
    if !matches!(outcome, AttemptOutcome::NeverStarted { .. }) {
        draft.step(at).false_starts = 0;
    }
    match outcome {
        AttemptOutcome::Succeeded { outputs, artifacts } => {
            let step = draft.step(at);
            (step.status, step.finished_at) = (StepRunStatus::Succeeded, Some(now));
            (step.outputs, step.artifacts) = (outputs, artifacts);
            let event = draft.step_event(EventKind::StepSucceeded, at);
            draft.record(event);
        }
        AttemptOutcome::Failed { failure, .. } => {
            draft.step(at).failures += 1;
            match pause_before_retry(draft, at) {
                Some(pause_s) => schedule_retry(draft, at, now.plus_seconds(pause_s), Some(failure)),
                None => fail_step(draft, at, failure),
            }
        }
        // Do not retry: a runner that accepted the step would do so only because it has not seen the later fence.
        AttemptOutcome::NeverStarted { detail, known_fence: Some(_) } => {
            fail_step(draft, at, ExecutionFailure { cause: FailureCode::NotRunnable, detail });
        }
        AttemptOutcome::NeverStarted { detail, known_fence: None } => {
            draft.step(at).false_starts += 1;
            let is_hopeless = draft.run.steps[at].false_starts >= NEVER_STARTED_MAX;
            let failure = ExecutionFailure { cause: FailureCode::NotRunnable, detail };
            match is_hopeless {
                true => fail_step(draft, at, failure),
                false => schedule_retry(draft, at, now.plus_seconds(NEVER_STARTED_PAUSE_S), Some(failure)),
            }
        }
        // `Stopped` without a cancellation also means that the outcome is unknown.
        AttemptOutcome::Interrupted
        | AttemptOutcome::Lost
        | AttemptOutcome::Stopped
        | AttemptOutcome::Unanswered { .. } => {
            handle_lost(draft, at, &outcome);
        }
    }
}

/// Seconds to wait before the next attempt; `None` if the step is not retried.
fn pause_before_retry(draft: &RunDraft<'_>, at: usize) -> Option<i64> {
    let (retry, step) = (step_plan(draft, at).retry?, &draft.run.steps[at]);
    if step.failures >= retry.attempts || draft.run.has_failed(step.stage) {
        return None;
    }
    Some(i64::try_from(retry.backoff.as_secs()).unwrap_or(i64::MAX))
}

fn handle_lost(draft: &mut RunDraft<'_>, at: usize, outcome: &AttemptOutcome) {
    draft.step(at).losses += 1;
    let detail = match outcome {
        AttemptOutcome::Lost => "its runner was lost; the outcome is unknown".to_owned(),
        AttemptOutcome::Unanswered { detail } => format!("{detail}; the outcome is unknown"),
        _ => "it was interrupted because its runner stopped; the outcome is unknown".to_owned(),
    };
    let failure = ExecutionFailure { cause: FailureCode::Lost, detail: detail.clone() };
    let step = &draft.run.steps[at];
    let may_retry = step.losses <= LOST_RETRIES_MAX && !draft.run.has_failed(step.stage);
    match step_plan(draft, at).on_lost {
        OnLost::Retry if may_retry => schedule_retry(draft, at, draft.now, Some(failure)),
        OnLost::Ask => {
            let step = draft.step(at);
            (step.status, step.failure) = (StepRunStatus::Waiting, Some(failure));
            let event = draft.step_event(EventKind::StepUnknown, at).with("detail", detail);
            draft.record(event);
        }
        OnLost::Retry | OnLost::Fail => fail_step(draft, at, failure),
    }
}

pub(super) fn schedule_retry(
    draft: &mut RunDraft<'_>,
    at: usize,
    not_before: Timestamp,
    failure: Option<ExecutionFailure>,
) {
    if draft.run.steps[at].has_used_all_attempts() {
        return fail_step(draft, at, attempts_exhausted());
    }
    let event = draft
        .step_event(EventKind::StepRetried, at)
        .with_some("detail", failure.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.not_before, step.failure) = (StepRunStatus::Ready, Some(not_before), failure);
}

pub(super) fn fail_step(draft: &mut RunDraft<'_>, at: usize, failure: ExecutionFailure) {
    let now = draft.now;
    draft.close_parked(at, AttemptOutcome::Failed { failure: failure.clone(), exit_code: None });
    let event = draft
        .step_event(EventKind::StepFailed, at)
        .with("cause", failure.cause.as_str())
        .with("detail", failure.detail.as_str());
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.finished_at, step.failure) = (StepRunStatus::Failed, Some(now), Some(failure));
}

impl StepRun {
    /// Whether the step has reached the maximum number of attempts and must fail instead of being retried again.
    pub(super) fn has_used_all_attempts(&self) -> bool {
        self.tries >= ATTEMPTS_MAX
    }
}

pub(super) fn attempts_exhausted() -> ExecutionFailure {
    ExecutionFailure { cause: FailureCode::NotRunnable, detail: format!("it failed {ATTEMPTS_MAX} attempts") }
}

fn step_plan<'a>(draft: &RunDraft<'a>, at: usize) -> &'a StepPlan {
    let step = &draft.run.steps[at];
    &draft.plan.stages[step.stage].steps[step.index]
}
