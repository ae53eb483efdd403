//! Applies the end of an attempt to the run.

use super::draft::Draft;
use super::limits::{ATTEMPTS_MAX, LOST_RETRIES_MAX, NEVER_STARTED_MAX, NEVER_STARTED_PAUSE_S};
use super::park;
use super::plan::{Plan, PlannedStep};
use super::state::{Outcome, Run, StageStatus, StepRun, StepStatus};
use crate::decision::Decision;
use crate::deployment::environment::report::Order;
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::step::OnLost;
use crate::time::Timestamp;

/// The response to a heartbeat.
pub fn order(run: &Run, step: StepRunId, nonce: &str) -> Order {
    let found = run.steps.iter().find(|it| it.id == step);
    match found.filter(|it| it.live.as_ref().is_some_and(|live| live.nonce == nonce)) {
        None => Order::Stale,
        Some(it) if run.stages[it.stage].status == StageStatus::Cancelling => Order::Cancel,
        Some(_) => Order::Continue,
    }
}

/// Returns `Stale` if nothing was stored. A cancelled attempt can only report that it has stopped.
pub fn report(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    nonce: &str,
    outcome: Outcome,
    now: Timestamp,
) -> Decision<Order> {
    let order = order(run, step, nonce);
    let Some(at) = run.position(step).filter(|_| order != Order::Stale) else {
        return Decision::calm(Order::Stale);
    };
    let mut draft = Draft::of(run, plan, now);
    if order == Order::Continue && park::repeat(&mut draft, at, &outcome) {
        return draft.finish(order);
    }
    let is_under_way = run.steps[at].memory.is_some();
    draft.close(at, outcome.clone());
    match order {
        Order::Cancel => stopped(&mut draft, at, &outcome),
        // The remote work continues: it is restarted only if the step itself reported a failure.
        _ if is_under_way && is_no_answer(&outcome) => give_up(&mut draft, at, outcome),
        _ => ended(&mut draft, at, outcome),
    }
    let answer = if order == Order::Cancel { Order::Stale } else { order };
    draft.finish(answer)
}

fn is_no_answer(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { failure, .. } if failure.cause != Cause::StepFailed)
}

fn give_up(draft: &mut Draft<'_>, at: usize, outcome: Outcome) {
    if let Outcome::Failed { failure, .. } = outcome {
        draft.step(at).failures += 1;
        fail(draft, at, failure);
    }
}

fn stopped(draft: &mut Draft<'_>, at: usize, outcome: &Outcome) {
    let now = draft.now;
    let step = draft.step(at);
    (step.status, step.finished_at) = (StepStatus::Cancelled, Some(now));
    let kind = match outcome {
        Outcome::Succeeded { .. } => EventKind::FinishedAfterCancel,
        _ => EventKind::StepCancelled,
    };
    let event = draft.about_step(kind, at);
    draft.record(event);
}

fn ended(draft: &mut Draft<'_>, at: usize, outcome: Outcome) {
    let now = draft.now;
    if !matches!(outcome, Outcome::NeverStarted { .. }) {
        draft.step(at).false_starts = 0;
    }
    match outcome {
        Outcome::Succeeded { outputs, artifacts } => {
            let step = draft.step(at);
            (step.status, step.finished_at) = (StepStatus::Succeeded, Some(now));
            (step.outputs, step.artifacts) = (outputs, artifacts);
            let event = draft.about_step(EventKind::StepSucceeded, at);
            draft.record(event);
        }
        Outcome::Failed { failure, .. } => {
            draft.step(at).failures += 1;
            match pause_before_retry(draft, at) {
                Some(pause_s) => again(draft, at, now.plus_seconds(pause_s), Some(failure)),
                None => fail(draft, at, failure),
            }
        }
        // Another runner would merely not know about the later fence.
        Outcome::NeverStarted { detail, known_fence: Some(_) } => {
            fail(draft, at, Failure { cause: Cause::NotRunnable, detail });
        }
        Outcome::NeverStarted { detail, known_fence: None } => {
            draft.step(at).false_starts += 1;
            let is_hopeless = draft.run.steps[at].false_starts >= NEVER_STARTED_MAX;
            let failure = Failure { cause: Cause::NotRunnable, detail };
            match is_hopeless {
                true => fail(draft, at, failure),
                false => again(draft, at, now.plus_seconds(NEVER_STARTED_PAUSE_S), Some(failure)),
            }
        }
        // An attempt that stopped without being cancelled has an unknown outcome.
        Outcome::Interrupted | Outcome::Lost | Outcome::Stopped | Outcome::Unanswered { .. } => {
            lost(draft, at, &outcome);
        }
    }
}

/// In seconds; `None` if there is no retry.
fn pause_before_retry(draft: &Draft<'_>, at: usize) -> Option<i64> {
    let (retry, step) = (planned(draft, at).retry?, &draft.run.steps[at]);
    if step.failures >= retry.attempts || draft.run.has_failed(step.stage) {
        return None;
    }
    Some(i64::try_from(retry.backoff.as_secs()).unwrap_or(i64::MAX))
}

fn lost(draft: &mut Draft<'_>, at: usize, outcome: &Outcome) {
    draft.step(at).losses += 1;
    let detail = match outcome {
        Outcome::Lost => "its runner was lost; the outcome is unknown".to_owned(),
        Outcome::Unanswered { detail } => format!("{detail}; the outcome is unknown"),
        _ => "it was interrupted because its runner stopped; the outcome is unknown".to_owned(),
    };
    let failure = Failure { cause: Cause::Lost, detail: detail.clone() };
    let step = &draft.run.steps[at];
    let may_retry = step.losses <= LOST_RETRIES_MAX && !draft.run.has_failed(step.stage);
    match planned(draft, at).on_lost {
        OnLost::Retry if may_retry => again(draft, at, draft.now, Some(failure)),
        OnLost::Ask => {
            let step = draft.step(at);
            (step.status, step.failure) = (StepStatus::Waiting, Some(failure));
            let event = draft.about_step(EventKind::StepUnknown, at).with("detail", detail);
            draft.record(event);
        }
        OnLost::Retry | OnLost::Fail => fail(draft, at, failure),
    }
}

pub(super) fn again(draft: &mut Draft<'_>, at: usize, not_before: Timestamp, failure: Option<Failure>) {
    if draft.run.steps[at].is_worn_out() {
        return fail(draft, at, too_often());
    }
    let event = draft
        .about_step(EventKind::StepRetried, at)
        .with_some("detail", failure.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.not_before, step.failure) = (StepStatus::Ready, Some(not_before), failure);
}

pub(super) fn fail(draft: &mut Draft<'_>, at: usize, failure: Failure) {
    let now = draft.now;
    draft.close_parked(at, Outcome::Failed { failure: failure.clone(), exit_code: None });
    let event = draft
        .about_step(EventKind::StepFailed, at)
        .with("cause", failure.cause.as_str())
        .with("detail", failure.detail.as_str());
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.finished_at, step.failure) = (StepStatus::Failed, Some(now), Some(failure));
}

impl StepRun {
    /// Whether the step has used up its attempts, so that it fails instead of waiting forever.
    pub(super) fn is_worn_out(&self) -> bool {
        self.tries >= ATTEMPTS_MAX
    }
}

pub(super) fn too_often() -> Failure {
    Failure { cause: Cause::NotRunnable, detail: format!("it failed {ATTEMPTS_MAX} attempts") }
}

fn planned<'a>(draft: &Draft<'a>, at: usize) -> &'a PlannedStep {
    let step = &draft.run.steps[at];
    &draft.plan.stages[step.stage].steps[step.index]
}
