//! Parks a custom step whose response says that it is not done. No process runs in the meantime: the state of the
//! attempt is stored in the database until the step is called again or its approval is decided.
//!
//! A call with stored state is a poll and may be repeated. Any other call may have side effects, so it is not repeated
//! automatically if its outcome is unknown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draft::RunDraft;
use super::limits::{
    CALLS_MAX, NEVER_STARTED_MAX, NEVER_STARTED_PAUSE_S, POLL_LOSSES_MAX, POLL_LOST_PAUSE_S, STEP_S_DEFAULT,
};
use super::plan::{Plan, StepPlan};
use super::report::{order, report};
use super::state::{AttemptOutcome, Run, StepRun, StepRunStatus};
use crate::decision::RuleDecision;
use crate::deployment::environment::report::RunnerOrder;
use crate::deployment::{ExecutionFailure, FailureCode};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::pipeline::seconds::DurationSeconds;
use crate::time::Timestamp;

/// State of a custom step between its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomStepState {
    /// Number of calls to the custom step that were granted to a runner in this attempt, including polls.
    pub calls: u32,
    /// When the first call was granted.
    pub since: Timestamp,
    /// When the step times out.
    pub by: Timestamp,
    /// State returned by the step, to be passed to its next call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<Value>,
    /// The approval that the step has requested and waits for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asks: Option<PendingApproval>,
    /// Name of the person whose vote granted the approval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_by: Option<String>,
    /// The next call is the one that was approved. It may have side effects, so it is not a poll.
    #[serde(default)]
    pub is_agreed_to: bool,
    /// Consecutive polls with an unknown outcome.
    #[serde(default)]
    pub lost: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// Text from the step, shown to the approvers.
    pub context: Option<String>,
    /// When the step requested the approval.
    pub since: Timestamp,
}

/// A response of a custom step that is not final.
#[derive(Debug, Clone, PartialEq)]
pub enum UnfinishedResponse {
    Polls { state: Value, pause_ms: u64 },
    Asks { context: Option<String> },
}

impl StepRun {
    /// Whether the step's work continues outside Berth and is polled.
    pub fn is_polling(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.state.is_some() && memory.asks.is_none())
    }

    /// The approval request that the step waits for.
    pub fn pending_approval(&self) -> Option<&PendingApproval> {
        self.memory.as_ref().and_then(|memory| memory.asks.as_ref()).filter(|_| self.is_gated())
    }

    /// When the step times out, if it is parked between two polls. While a process is running, the runner enforces the
    /// timeout.
    pub(super) fn overdue_at(&self) -> Option<Timestamp> {
        let is_parked = self.live.is_none() && self.status == StepRunStatus::Ready && self.is_polling();
        self.memory.as_ref().filter(|_| is_parked).map(|memory| memory.by)
    }
}

impl Run {
    /// Whether this attempt is parked and will be called again.
    pub fn continues_attempt(&self, step: StepRunId, number: u32) -> bool {
        let found = self.position(step).map(|at| &self.steps[at]);
        found.is_some_and(|it| it.tries == number && it.memory.is_some())
    }
}

/// Parks the attempt. Returns `Stale` if the attempt was cancelled or has already ended.
pub fn park(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    nonce: &str,
    parking: UnfinishedResponse,
    now: Timestamp,
) -> RuleDecision<RunnerOrder> {
    let found = run.position(step).and_then(|at| Some((at, run.steps[at].live.as_ref()?)));
    let (at, live) = match (order(run, step, nonce), found) {
        (RunnerOrder::Continue, Some(found)) => found,
        // The step is being cancelled: this call has ended, and no further call follows.
        (RunnerOrder::Cancel, _) => return report(run, plan, step, nonce, AttemptOutcome::Stopped, now),
        _ => return RuleDecision::without_changes(RunnerOrder::Stale),
    };
    if live.calls >= CALLS_MAX {
        let detail = format!("it was called {CALLS_MAX} times and is not done");
        let failure = ExecutionFailure { cause: FailureCode::TimedOut, detail };
        return report(run, plan, step, nonce, AttemptOutcome::Failed { failure, exit_code: None }, now);
    }
    let is_news = !run.steps[at].is_polling();
    let (calls, since) = (live.calls, live.granted_at);
    let by = since.plus_seconds(plan.step(&run.steps[at]).timeout_seconds());
    let mut draft = RunDraft::new(run, plan, now);
    draft.park(at);
    let it = draft.step(at);
    it.false_starts = 0;
    let memory = it.memory.get_or_insert_with(|| CustomStepState::new(calls, since, by));
    (memory.lost, memory.is_agreed_to) = (0, false);
    match parking {
        UnfinishedResponse::Polls { state, pause_ms } => {
            memory.state = Some(state);
            let pause_ms = i64::try_from(pause_ms).unwrap_or(i64::MAX);
            (it.status, it.not_before) = (StepRunStatus::Ready, Some(now.plus_millis(pause_ms)));
            // Only the first response that asks for polling appends an event.
            if is_news {
                let event = draft.step_event(EventKind::StepTriggered, at);
                draft.record(event);
            }
        }
        UnfinishedResponse::Asks { context } => {
            (memory.asks, memory.approved_by) = (Some(PendingApproval { context, since: now }), None);
            (it.status, it.not_before) = (StepRunStatus::Waiting, None);
        }
    }
    draft.finish(RunnerOrder::Continue)
}

/// Schedules the same call again if it never started, or if it was a poll whose outcome is unknown. Returns false if
/// the call must not be repeated.
pub(super) fn repeat_call(draft: &mut RunDraft<'_>, at: usize, outcome: &AttemptOutcome) -> bool {
    let (now, step) = (draft.now, &draft.run.steps[at]);
    let Some(memory) = &step.memory else { return false };
    let (pause_s, may_repeat) = match outcome {
        AttemptOutcome::NeverStarted { known_fence: Some(_), .. } => return false,
        AttemptOutcome::NeverStarted { .. } => {
            (NEVER_STARTED_PAUSE_S, step.false_starts + 1 < NEVER_STARTED_MAX)
        }
        AttemptOutcome::Lost
        | AttemptOutcome::Interrupted
        | AttemptOutcome::Stopped
        | AttemptOutcome::Unanswered { .. } => {
            (POLL_LOST_PAUSE_S, memory.is_poll() && memory.lost < POLL_LOSSES_MAX)
        }
        AttemptOutcome::Succeeded { .. } | AttemptOutcome::Failed { .. } => return false,
    };
    if !may_repeat {
        return false;
    }
    draft.park(at);
    let it = draft.step(at);
    (it.status, it.not_before) = (StepRunStatus::Ready, Some(now.plus_seconds(pause_s)));
    match outcome {
        AttemptOutcome::NeverStarted { .. } => it.false_starts += 1,
        _ => it.memory.iter_mut().for_each(|memory| memory.lost += 1),
    }
    true
}

/// Schedules the next call of a step whose approval was granted.
pub(super) fn resume_approved(draft: &mut RunDraft<'_>, at: usize, by: &str) {
    draft.suppress_event();
    let now = draft.now;
    let it = draft.step(at);
    it.status = StepRunStatus::Ready;
    let Some(memory) = &mut it.memory else { return };
    let asked = memory.asks.take().map_or(now, |asks| asks.since);
    (memory.approved_by, memory.is_agreed_to) = (Some(by.to_owned()), true);
    // The time spent waiting for approval does not count towards the timeout.
    let waited = now.as_micros() - asked.as_micros();
    memory.by = Timestamp::from_micros(memory.by.as_micros().saturating_add(waited));
    // If the approval was granted without any wait, pause, so that a step that keeps requesting approval does not
    // occupy a runner.
    it.not_before = (waited == 0).then(|| now.plus_seconds(POLL_LOST_PAUSE_S));
}

/// Fails the parked steps that have timed out.
pub(super) fn time_out(draft: &mut RunDraft<'_>) {
    let now = draft.now;
    let is_over = |step: &StepRun| step.overdue_at().is_some_and(|by| by <= now);
    let late: Vec<usize> =
        draft.run.steps.iter().enumerate().filter(|(_, step)| is_over(step)).map(|(at, _)| at).collect();
    for at in late {
        let limit = DurationSeconds::from_secs(
            draft.plan.step(&draft.run.steps[at]).timeout_seconds().unsigned_abs(),
        );
        let detail = format!("took longer than its timeout of {limit}");
        super::report::fail_step(draft, at, ExecutionFailure { cause: FailureCode::TimedOut, detail });
    }
}

impl CustomStepState {
    fn new(calls: u32, since: Timestamp, by: Timestamp) -> Self {
        let (state, asks, approved_by) = (None, None, None);
        Self { calls, since, by, state, asks, approved_by, is_agreed_to: false, lost: 0 }
    }

    /// Whether the next call is a poll, which may be repeated safely.
    pub const fn is_poll(&self) -> bool {
        self.state.is_some() && !self.is_agreed_to
    }
}

impl StepPlan {
    /// The step's timeout, or the default if it sets none.
    pub fn timeout_seconds(&self) -> i64 {
        i64::try_from(self.timeout.map_or(STEP_S_DEFAULT, DurationSeconds::as_secs)).unwrap_or(i64::MAX)
    }
}
