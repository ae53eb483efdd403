//! Report: how an attempt ended, and what follows from it.

use super::draft::Draft;
use super::limits::{LOST_RETRIES_MAX, NEVER_STARTED_MAX, NEVER_STARTED_PAUSE_S};
use super::plan::{Plan, PlannedStep};
use super::state::{Outcome, Run, StageStatus, StepStatus};
use crate::decision::Decision;
use crate::deployment::report::Order;
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::step::OnLost;
use crate::time::Timestamp;

/// The answer to a sign of life.
pub fn order(run: &Run, step: StepRunId, nonce: &str) -> Order {
    let found = run.steps.iter().find(|it| it.id == step);
    match found.filter(|it| it.live.as_ref().is_some_and(|live| live.nonce == nonce)) {
        None => Order::Stale,
        Some(it) if run.stages[it.stage].status == StageStatus::Cancelling => Order::Cancel,
        Some(_) => Order::Continue,
    }
}

/// `Stale`: nothing was stored. What was told to stop is believed that it has, and nothing else.
pub fn report(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    nonce: &str,
    outcome: Outcome,
    now: Timestamp,
) -> Decision<Order> {
    let order = order(run, step, nonce);
    let mut draft = Draft::of(run, plan, now);
    let Some(at) = draft.position(step).filter(|_| order != Order::Stale) else {
        return Decision::calm(Order::Stale);
    };
    draft.close(at, outcome.clone());
    match order {
        Order::Cancel => stopped(&mut draft, at, &outcome),
        _ => ended(&mut draft, at, outcome),
    }
    let answer = if order == Order::Cancel { Order::Stale } else { order };
    draft.finish(answer)
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
            let retry =
                planned(draft, at).retry.filter(|retry| draft.run.steps[at].failures < retry.attempts);
            match retry {
                Some(retry) => {
                    let pause = i64::try_from(retry.backoff.as_secs()).unwrap_or(i64::MAX / 2_000_000);
                    again(draft, at, now.plus_seconds(pause), Some(failure));
                }
                None => fail(draft, at, failure),
            }
        }
        Outcome::NeverStarted { detail } => {
            let is_hopeless = draft.run.steps[at].tries >= NEVER_STARTED_MAX;
            let failure = Failure { cause: Cause::NotRunnable, detail };
            match is_hopeless {
                true => fail(draft, at, failure),
                false => again(draft, at, now.plus_seconds(NEVER_STARTED_PAUSE_S), Some(failure)),
            }
        }
        // One that stops without having been told to has an end nobody knows.
        Outcome::Interrupted | Outcome::Lost | Outcome::Stopped => lost(draft, at, &outcome),
    }
}

fn lost(draft: &mut Draft<'_>, at: usize, outcome: &Outcome) {
    let detail = match outcome {
        Outcome::Lost => "its runner went away; how far it came is not known",
        _ => "it was interrupted because its runner stopped; how far it came is not known",
    };
    let failure = Failure { cause: Cause::Lost, detail: detail.into() };
    match planned(draft, at).on_lost {
        OnLost::Retry if draft.run.steps[at].tries <= LOST_RETRIES_MAX => {
            again(draft, at, draft.now, Some(failure));
        }
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
    let event = draft
        .about_step(EventKind::StepRetried, at)
        .with_some("detail", failure.as_ref().map(|failure| failure.detail.as_str()));
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.not_before, step.failure) = (StepStatus::Ready, Some(not_before), failure);
}

pub(super) fn fail(draft: &mut Draft<'_>, at: usize, failure: Failure) {
    let now = draft.now;
    let event = draft
        .about_step(EventKind::StepFailed, at)
        .with("cause", failure.cause.as_str())
        .with("detail", failure.detail.as_str());
    draft.record(event);
    let step = draft.step(at);
    (step.status, step.finished_at, step.failure) = (StepStatus::Failed, Some(now), Some(failure));
}

fn planned<'a>(draft: &Draft<'a>, at: usize) -> &'a PlannedStep {
    let step = &draft.run.steps[at];
    &draft.plan.stages[step.stage].steps[step.index]
}
