//! Park: a custom step has answered that it is not done. Its attempt goes on without a process: in rows, until it is
//! called again, or until people have agreed that it is.
//!
//! A call with something to remember is a poll, and may be made twice. Any other call may have taken effect: when nobody
//! knows how it ended, it is not made again by itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draft::Draft;
use super::limits::{
    CALLS_MAX, NEVER_STARTED_MAX, NEVER_STARTED_PAUSE_S, POLL_LOSSES_MAX, POLL_LOST_PAUSE_S, STEP_S_DEFAULT,
};
use super::plan::{Plan, PlannedStep};
use super::report::{order, report};
use super::state::{Outcome, Run, StepRun, StepStatus};
use crate::decision::Decision;
use crate::deployment::environment::report::Order;
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::pipeline::seconds::Seconds;
use crate::time::Timestamp;

/// What is kept of a custom step between its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Calls of this attempt that were granted.
    pub calls: u32,
    /// When the first was.
    pub since: Timestamp,
    /// When its time is over.
    pub by: Timestamp,
    /// What the step answered to be remembered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<Value>,
    /// What it wants people to agree to, as long as they have not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asks: Option<Asks>,
    /// Who agreed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_by: Option<String>,
    /// The next answer is to the call that they agreed to: it may have taken effect, whatever else is remembered.
    #[serde(default)]
    pub is_agreed_to: bool,
    /// Polls one after the other whose end nobody knows.
    #[serde(default)]
    pub lost: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks {
    /// For people; as the step says it.
    pub context: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// An answer that is not the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Parking {
    Polls { state: Value, pause_ms: u64 },
    Asks { context: Option<String> },
}

impl StepRun {
    /// What it began is under way somewhere, and it is looked at from time to time.
    pub fn is_polling(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.state.is_some() && memory.asks.is_none())
    }

    /// It waits for people.
    pub fn asks(&self) -> Option<&Asks> {
        self.memory.as_ref().and_then(|memory| memory.asks.as_ref()).filter(|_| self.is_held())
    }

    /// The moment at which its time is over, while nothing of it runs.
    pub(super) fn overdue_at(&self) -> Option<Timestamp> {
        let is_parked = self.live.is_none() && self.status == StepStatus::Ready && self.is_polling();
        self.memory.as_ref().filter(|_| is_parked).map(|memory| memory.by)
    }
}

impl Run {
    /// Whether this attempt is not over: it will be called again.
    pub fn goes_on_with(&self, step: StepRunId, number: u32) -> bool {
        let found = self.position(step).map(|at| &self.steps[at]);
        found.is_some_and(|it| it.tries == number && it.memory.is_some())
    }
}

/// `Stale`: nothing was stored.
pub fn park(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    nonce: &str,
    parking: Parking,
    now: Timestamp,
) -> Decision<Order> {
    let found = run.position(step).and_then(|at| Some((at, run.steps[at].live.as_ref()?)));
    let (at, live) = match (order(run, step, nonce), found) {
        (Order::Continue, Some(found)) => found,
        // It has ended its call, and is not called again.
        (Order::Cancel, _) => return report(run, plan, step, nonce, Outcome::Stopped, now),
        _ => return Decision::calm(Order::Stale),
    };
    if live.calls >= CALLS_MAX {
        let detail = format!("it was called {CALLS_MAX} times and is not done");
        let failure = Failure { cause: Cause::TimedOut, detail };
        return report(run, plan, step, nonce, Outcome::Failed { failure, exit_code: None }, now);
    }
    let is_news = !run.steps[at].is_polling();
    let (calls, since) = (live.calls, live.granted_at);
    let by = since.plus_seconds(plan.step(&run.steps[at]).seconds());
    let mut draft = Draft::of(run, plan, now);
    draft.park(at);
    let it = draft.step(at);
    it.false_starts = 0;
    let memory = it.memory.get_or_insert_with(|| Memory::of(calls, since, by));
    (memory.lost, memory.is_agreed_to) = (0, false);
    match parking {
        Parking::Polls { state, pause_ms } => {
            memory.state = Some(state);
            let pause_ms = i64::try_from(pause_ms).unwrap_or(i64::MAX);
            (it.status, it.not_before) = (StepStatus::Ready, Some(now.plus_millis(pause_ms)));
            // Of many polls only the first is news.
            if is_news {
                let event = draft.about_step(EventKind::StepTriggered, at);
                draft.record(event);
            }
        }
        Parking::Asks { context } => {
            (memory.asks, memory.approved_by) = (Some(Asks { context, since: now }), None);
            (it.status, it.not_before) = (StepStatus::Waiting, None);
        }
    }
    draft.finish(Order::Continue)
}

/// A call of which nobody knows the end, or of which nothing ran, may be made again as it was: then the attempt goes on.
/// False: it has ended.
pub(super) fn repeat(draft: &mut Draft<'_>, at: usize, outcome: &Outcome) -> bool {
    let (now, step) = (draft.now, &draft.run.steps[at]);
    let Some(memory) = &step.memory else { return false };
    let (pause_s, may_repeat) = match outcome {
        Outcome::NeverStarted { known_fence: Some(_), .. } => return false,
        Outcome::NeverStarted { .. } => (NEVER_STARTED_PAUSE_S, step.false_starts + 1 < NEVER_STARTED_MAX),
        Outcome::Lost | Outcome::Interrupted | Outcome::Stopped | Outcome::Unanswered { .. } => {
            (POLL_LOST_PAUSE_S, memory.is_poll() && memory.lost < POLL_LOSSES_MAX)
        }
        Outcome::Succeeded { .. } | Outcome::Failed { .. } => return false,
    };
    if !may_repeat {
        return false;
    }
    draft.park(at);
    let it = draft.step(at);
    (it.status, it.not_before) = (StepStatus::Ready, Some(now.plus_seconds(pause_s)));
    match outcome {
        Outcome::NeverStarted { .. } => it.false_starts += 1,
        _ => it.memory.iter_mut().for_each(|memory| memory.lost += 1),
    }
    true
}

/// People have agreed: it is called again, and told so.
pub(super) fn agreed(draft: &mut Draft<'_>, at: usize, by: &str) {
    draft.is_told_elsewhere();
    let now = draft.now;
    let it = draft.step(at);
    it.status = StepStatus::Ready;
    let Some(memory) = &mut it.memory else { return };
    let asked = memory.asks.take().map_or(now, |asks| asks.since);
    (memory.approved_by, memory.is_agreed_to) = (Some(by.to_owned()), true);
    // The time that people took is not the step's.
    let waited = now.as_micros() - asked.as_micros();
    memory.by = Timestamp::from_micros(memory.by.as_micros().saturating_add(waited));
    // Where nobody was asked, one that asks again and again does not keep a runner busy.
    it.not_before = (waited == 0).then(|| now.plus_seconds(POLL_LOST_PAUSE_S));
}

/// Steps whose time is over while nothing of them runs.
pub(super) fn time_out(draft: &mut Draft<'_>) {
    let now = draft.now;
    let is_over = |step: &StepRun| step.overdue_at().is_some_and(|by| by <= now);
    let late: Vec<usize> =
        draft.run.steps.iter().enumerate().filter(|(_, step)| is_over(step)).map(|(at, _)| at).collect();
    for at in late {
        let limit = Seconds::from_secs(draft.plan.step(&draft.run.steps[at]).seconds().unsigned_abs());
        let detail = format!("took longer than its timeout of {limit}");
        super::report::fail(draft, at, Failure { cause: Cause::TimedOut, detail });
    }
}

impl Memory {
    fn of(calls: u32, since: Timestamp, by: Timestamp) -> Self {
        let (state, asks, approved_by) = (None, None, None);
        Self { calls, since, by, state, asks, approved_by, is_agreed_to: false, lost: 0 }
    }

    /// The next call only looks, and may be made twice.
    pub const fn is_poll(&self) -> bool {
        self.state.is_some() && !self.is_agreed_to
    }
}

impl PlannedStep {
    /// How long it may take in all.
    pub fn seconds(&self) -> i64 {
        i64::try_from(self.timeout.map_or(STEP_S_DEFAULT, Seconds::as_secs)).unwrap_or(i64::MAX)
    }
}
