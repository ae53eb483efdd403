//! Custom steps. They are called until they are done. Their runners may be lost, and servers may crash between two
//! calls.
//!
//! A call without a polling state has an external effect. The oracle counts such calls, tracks the last response of
//! each step, and reports calls that must not be made.

use std::collections::BTreeMap;

use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::run::begin::{BeginRunCommand, begin};
use berth_core::deployment::run::grant::{GrantStep, grant};
use berth_core::deployment::run::limits::POLL_LOSSES_MAX;
use berth_core::deployment::run::{
    AttemptOutcome, OutcomeResolution, Plan, Run, StepRunStatus, UnfinishedResponse, cancel, gated_steps,
    park, report, resolve,
};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::environment::DecisionContext;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::step::OnLost;
use berth_core::time::Timestamp;
use serde_json::{Value, json};

use super::check::{RunCheckResult, RunViolation, ensure};
use super::plans::custom_plan;
use super::records::RunRecords;
use super::simulation::{START, cancel_by_person};
use crate::random::SeededRandom;

const COMMANDS: usize = 90;
/// Maximum number of turns after which a run must have ended; more than any run needs.
const TURNS_MAX: usize = 2_000;

/// What the oracle knows about a step.
#[derive(Debug, Clone, Default)]
struct StepKnowledge {
    attempt: u32,
    /// The next call may have an effect: no call of this attempt has had one, or an approval was given.
    is_pending: bool,
    asked_at: Option<Timestamp>,
    /// The last polling state.
    state: Option<Value>,
    awaits_approval: bool,
    earliest: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// Number of polls with an unknown outcome since the last call that was answered.
    polls_lost: u32,
    /// It is unknown whether a call had an effect, and no person has resolved it yet.
    is_unanswered: bool,
}

struct CallSimulation {
    chance: SeededRandom,
    plan: Plan,
    run: Run,
    records: RunRecords,
    now: Timestamp,
    known: Vec<StepKnowledge>,
    nonces: u64,
    spent_nonces: Vec<(usize, String)>,
}

/// Simulates the run that this seed determines.
pub fn check(seed: u64) -> RunCheckResult {
    let mut walk = CallSimulation::begin(seed)?;
    for _ in 0..COMMANDS {
        walk.perform_random()?;
    }
    walk.conclude()
}

impl CallSimulation {
    fn begin(seed: u64) -> Result<Self, RunViolation> {
        let mut chance = SeededRandom::from_seed(seed);
        let plan = custom_plan(&mut chance);
        let (deployment, pipeline) =
            (DeploymentId::from_parts(START, [1; 10]), PipelineId::from_parts(START, [2; 10]));
        let command = BeginRunCommand { deployment, pipeline, built: None };
        let decision =
            begin(&plan, command, &DecisionContext { now: START, epoch: 0, lost_s: 45, entropy: [3; 10] });
        let Some(RecordChange::Put(DomainRecord::Run(change))) = decision.changes.into_iter().next() else {
            unreachable!("a run that begins is written")
        };
        let mut records = RunRecords::default();
        records.apply(&change)?;
        let known = vec![StepKnowledge::default(); change.run.steps.len()];
        let (nonces, spent) = (0, Vec::new());
        Ok(Self { chance, plan, run: change.run, records, now: START, known, nonces, spent_nonces: spent })
    }

    fn commit<A>(&mut self, decision: RuleDecision<A>) -> Result<A, RunViolation> {
        let is_told = !decision.events.is_empty();
        for change in decision.changes {
            let RecordChange::Put(DomainRecord::Run(change)) = change else { continue };
            ensure!(change.is_quiet != is_told, "events", "a change without an event, or with two");
            self.records.apply(&change)?;
            ensure!(
                self.records.matches_run(&change.run),
                "written",
                "what was handed out is not what was written"
            );
            self.run = change.run;
        }
        Ok(decision.answer)
    }

    fn perform_random(&mut self) -> RunCheckResult {
        match self.chance.below(100) {
            0..30 => self.grant(),
            30..65 => self.end_call(),
            65..72 => self.answer_approval(),
            72..76 => self.resolve(),
            76..84 => self.advance_clock(),
            84..90 => self.wake(),
            90..94 => self.crash(),
            94..98 => self.send_stale_messages(),
            98 => self.cancel(),
            _ => Ok(()),
        }
    }

    fn pick(&mut self, is_one: impl Fn(&Run, usize) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.run.steps.len()).filter(|at| is_one(&self.run, *at)).collect();
        if found.is_empty() { None } else { Some(self.chance.pick(&found)) }
    }

    fn grant(&mut self) -> RunCheckResult {
        let Some(at) = self.pick(|run, at| run.steps[at].status == StepRunStatus::Ready) else {
            return Ok(());
        };
        self.nonces += 1;
        let nonce = format!("n{}", self.nonces);
        let (step, runner) = (self.run.steps[at].id, "runner".to_owned());
        let command = GrantStep { step, runner, nonce, lost_ms: None, passes_gates: false };
        let Ok(decision) = grant(&self.run, &self.plan, &command, self.now) else { return Ok(()) };
        let attempt = self.commit(decision)?;
        let (known, name) = (&mut self.known[at], &self.run.steps[at].step);
        if attempt.number != known.attempt {
            ensure!(!known.is_unanswered, "on_lost", "{name} started again without being resolved");
            ensure!(attempt.calls == 1, "E14", "{name} began with call {}", attempt.calls);
            let by = Some(self.now.plus_seconds(self.plan.step(&self.run.steps[at]).timeout_seconds()));
            *known = StepKnowledge {
                attempt: attempt.number,
                is_pending: true,
                deadline: by,
                ..StepKnowledge::default()
            };
        } else {
            ensure!(attempt.calls > 1, "E14", "attempt {} of {name} was granted twice", attempt.number);
        }
        let memory = self.run.steps[at].memory.as_ref();
        let state = memory.and_then(|memory| memory.state.clone());
        ensure!(state == known.state, "state", "{name} was called with {state:?}, not {:?}", known.state);
        ensure!(!known.awaits_approval, "asks", "{name} was called before it was approved");
        ensure!(known.earliest.is_none_or(|at| at <= self.now), "pause", "{name} was called too early");
        let is_poll = memory.is_some_and(berth_core::deployment::run::CustomStepState::is_poll);
        ensure!(is_poll || known.is_pending, "once", "{name} takes effect a second time");
        let is_late = state.is_some() && known.deadline.is_some_and(|by| by <= self.now);
        ensure!(!is_late, "time", "{name} was called after its time");
        Ok(())
    }

    fn end_call(&mut self) -> RunCheckResult {
        let Some(at) = self.pick(|run, at| run.steps[at].live.is_some()) else { return Ok(()) };
        let kind = self.chance.below(20);
        self.end(at, kind)
    }

    fn end(&mut self, at: usize, kind: u64) -> RunCheckResult {
        let Some(live) = self.run.steps[at].live.clone() else { return Ok(()) };
        let step = live.step;
        let was_stopping = report::order(&self.run, step, &live.nonce) == RunnerOrder::Cancel;
        self.spent_nonces.push((at, live.nonce.clone()));
        let is_poll = !self.known[at].is_pending;
        let parking = match kind {
            0..8 => {
                let state = json!({ "answer": self.nonces });
                Some(UnfinishedResponse::Polls { state, pause_ms: self.chance.pick(&[100, 5_000, 60_000]) })
            }
            8..10 => Some(UnfinishedResponse::Asks { context: Some("is it so?".into()) }),
            _ => None,
        };
        let outcome = outcome(kind);
        let never_ran = parking.is_none() && matches!(outcome, AttemptOutcome::NeverStarted { .. });
        let asks = matches!(parking, Some(UnfinishedResponse::Asks { .. }));
        let parking_is_answer = parking.is_some();
        if !never_ran && !asks {
            self.known[at].is_pending = false;
        }
        let decision = match parking.clone() {
            Some(parking) => park::park(&self.run, &self.plan, step, &live.nonce, parking, self.now),
            None => report::report(&self.run, &self.plan, step, &live.nonce, outcome.clone(), self.now),
        };
        self.commit(decision)?;
        let (known, step) = (&mut self.known[at], &self.run.steps[at]);
        ensure!(step.live.is_none(), "E1", "a call of {} has ended and is still live", step.step);
        if was_stopping {
            let status = step.status;
            ensure!(
                status == StepRunStatus::Cancelled,
                "E9",
                "{} was told to stop and is {status:?}",
                step.step
            );
            return Ok(());
        }
        match parking {
            Some(UnfinishedResponse::Polls { state, pause_ms }) => {
                let pause = i64::try_from(pause_ms).unwrap_or(0);
                (known.state, known.earliest) = (Some(state), Some(self.now.plus_millis(pause)));
            }
            Some(UnfinishedResponse::Asks { .. }) => {
                (known.awaits_approval, known.asked_at, known.earliest) = (true, Some(self.now), None);
            }
            None => {
                let is_unknown = matches!(
                    outcome,
                    AttemptOutcome::Lost
                        | AttemptOutcome::Interrupted
                        | AttemptOutcome::Stopped
                        | AttemptOutcome::Unanswered { .. }
                );
                let (goes_on, name) = (step.memory.is_some(), &step.step);
                known.polls_lost += u32::from(is_poll && is_unknown);
                let may_go_on = is_poll || never_ran;
                ensure!(!goes_on || may_go_on, "once", "{name} is called again after {outcome:?}");
                let is_given_up = is_poll && is_unknown && !goes_on;
                let lost = known.polls_lost;
                ensure!(
                    !is_given_up || lost > POLL_LOSSES_MAX,
                    "poll",
                    "{name} ended after {lost} lost polls"
                );
                let is_late = is_poll
                    && matches!(&outcome, AttemptOutcome::Failed { failure, .. } if failure.cause == FailureCode::TimedOut);
                let is_over = step.status == StepRunStatus::Failed;
                ensure!(!is_late || is_over, "once", "{name} starts again after a poll that took too long");
                known.earliest = None;
                let asks = self.plan.step(step).on_lost == OnLost::Ask;
                known.is_unanswered = is_unknown && !goes_on && asks;
            }
        }
        if parking_is_answer {
            self.known[at].polls_lost = 0;
        }
        Ok(())
    }

    /// Approves or rejects a step's approval request.
    fn answer_approval(&mut self) -> RunCheckResult {
        let is_asking = |run: &Run, at: usize| {
            run.steps[at].pending_approval().is_some() && run.gated_steps().any(|it| it == at)
        };
        let Some(at) = self.pick(is_asking) else { return Ok(()) };
        let (step, now) = (self.run.steps[at].id, self.now);
        if self.chance.percent(80) {
            self.commit(gated_steps::pass_approval(&self.run, &self.plan, step, "usr_ada", now))?;
            let known = &mut self.known[at];
            let waited = known.asked_at.map_or(0, |at| now.as_micros() - at.as_micros());
            known.deadline = known.deadline.map(|by| Timestamp::from_micros(by.as_micros() + waited));
            (known.awaits_approval, known.is_pending) = (false, true);
            let memory = self.run.steps[at].memory.as_ref();
            let by = memory.and_then(|memory| memory.approved_by.as_deref());
            ensure!(by == Some("usr_ada"), "asks", "{} does not know who agreed", self.run.steps[at].step);
        } else {
            let failure = ExecutionFailure { cause: FailureCode::ApprovalRejected, detail: "no".into() };
            self.commit(gated_steps::fail_approval(&self.run, &self.plan, step, failure, now))?;
            let status = self.run.steps[at].status;
            ensure!(
                status == StepRunStatus::Failed,
                "asks",
                "{} was refused and is {status:?}",
                self.run.steps[at].step
            );
        }
        Ok(())
    }

    fn resolve(&mut self) -> RunCheckResult {
        let is_unknown = |run: &Run, at: usize| {
            run.steps[at].status == StepRunStatus::Waiting && !run.steps[at].is_gated()
        };
        let Some(at) = self.pick(is_unknown) else { return Ok(()) };
        let resolution =
            self.chance.pick(&[OutcomeResolution::Ran, OutcomeResolution::Retry, OutcomeResolution::Fail]);
        if let Ok(decision) =
            resolve::resolve(&self.run, &self.plan, self.run.steps[at].id, resolution, self.now)
        {
            self.commit(decision)?;
            self.known[at].is_unanswered = false;
        }
        Ok(())
    }

    fn advance_clock(&mut self) -> RunCheckResult {
        let until = match self.chance.below(4) {
            0 => self.run.wakes_at(),
            1 => self.run.next_ready_at(),
            _ => Some(self.now.plus_millis(self.chance.pick(&[1, 100, 5_000, 70_000]))),
        };
        self.now = self.now.max(until.unwrap_or(self.now));
        Ok(())
    }

    /// Wakes steps that are due, and checks that none exceeds its timeout.
    fn wake(&mut self) -> RunCheckResult {
        self.commit(gated_steps::wake(&self.run, &self.plan, self.now))?;
        for (step, known) in self.run.steps.iter().zip(&self.known) {
            let is_parked = step.live.is_none() && step.is_polling() && step.tries == known.attempt;
            let is_late = is_parked && known.deadline.is_some_and(|by| by <= self.now);
            ensure!(!is_late, "time", "{} exceeds its time without a timeout", step.step);
        }
        Ok(())
    }

    /// Crashes the process: unwritten decisions are lost, and all running calls end.
    fn crash(&mut self) -> RunCheckResult {
        let Some(run) = self.records.load() else { unreachable!("it was written when it began") };
        self.run = run;
        for at in 0..self.run.steps.len() {
            self.end(at, ENDS_LOST)?;
        }
        Ok(())
    }

    /// Sends a response and a report too late, with a nonce that is no longer valid. Neither may have an effect.
    fn send_stale_messages(&mut self) -> RunCheckResult {
        if self.spent_nonces.is_empty() {
            return Ok(());
        }
        let nth = usize::try_from(self.chance.below(self.spent_nonces.len() as u64)).unwrap_or(0);
        let (at, nonce) = self.spent_nonces[nth].clone();
        let (step, state) = (self.run.steps[at].id, json!("late"));
        let parking = UnfinishedResponse::Polls { state, pause_ms: 1 };
        let late = park::park(&self.run, &self.plan, step, &nonce, parking, self.now);
        ensure!(
            late.changes.is_empty() && late.answer == RunnerOrder::Stale,
            "stale",
            "a late answer was kept"
        );
        let late = report::report(&self.run, &self.plan, step, &nonce, outcome(10), self.now);
        ensure!(late.changes.is_empty() && late.answer == RunnerOrder::Stale, "stale", "a late end was kept");
        Ok(())
    }

    fn cancel(&mut self) -> RunCheckResult {
        self.commit(cancel::cancel(&self.run, &self.plan, &cancel_by_person(), self.now))
    }

    /// Drives the run to its end; no attempt may be left over.
    fn conclude(&mut self) -> RunCheckResult {
        for _ in 0..TURNS_MAX {
            if self.run.status().is_final() {
                break;
            }
            for at in 0..self.run.steps.len() {
                self.end(at, ENDS_WELL)?;
            }
            self.answer_approval()?;
            self.resolve()?;
            let next = self.run.next_ready_at().into_iter().chain(self.run.wakes_at()).min();
            self.now = self.now.max(next.unwrap_or(self.now));
            self.wake()?;
            self.grant()?;
        }
        let status = self.run.status();
        ensure!(status.is_final(), "E4", "the run is {status:?} and nothing brings it to an end");
        for step in &self.run.steps {
            let open = self.records.attempts_of(step.id).find(|it| it.end.is_none());
            ensure!(open.is_none(), "E1", "attempt {:?} of {} outlives its run", open, step.step);
        }
        Ok(())
    }
}

const ENDS_WELL: u64 = 10;
const ENDS_LOST: u64 = 16;

fn outcome(kind: u64) -> AttemptOutcome {
    match kind {
        ENDS_WELL..13 => AttemptOutcome::Succeeded { outputs: BTreeMap::new(), artifacts: BTreeMap::new() },
        13 => {
            let failure = ExecutionFailure { cause: FailureCode::StepFailed, detail: "no quota".into() };
            AttemptOutcome::Failed { failure, exit_code: None }
        }
        14 => AttemptOutcome::never_started("no disk".into()),
        15 => AttemptOutcome::Unanswered { detail: "it crashed".into() },
        17 => AttemptOutcome::Interrupted,
        18 => AttemptOutcome::Stopped,
        19 => {
            let failure = ExecutionFailure { cause: FailureCode::TimedOut, detail: "took too long".into() };
            AttemptOutcome::Failed { failure, exit_code: None }
        }
        _ => AttemptOutcome::Lost,
    }
}
