//! A simulated run with its surroundings: applies commands to the rules, commits their decisions, and can crash.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use berth_core::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::run::begin::{BeginRunCommand, BuildResults, begin};
use berth_core::deployment::run::grant::GrantStep;
use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{
    Attempt, OutcomeResolution, Plan, Run, RunChange, StageRunStatus, StageType, StepRunStatus, cancel,
    enter, grant, report, resolve, retry,
};
use berth_core::deployment::{CancelCause, CancelRequest};
use berth_core::environment::DecisionContext;
use berth_core::event::{Actor, NewEvent};
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::time::Timestamp;

use super::check::{ObservedRunStep, RunOracle, RunViolation, ensure};
use super::command::{GrantNonce, ReportNonce, RunCommand, SimulatedEnd, StepPick, WhichStage};
use super::plans::{PlanShape, plan};
use super::records::RunRecords;

/// 2026-11-15T08:00:00Z
pub(super) const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

/// A command after its references to steps and stages have been resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum RunRequest {
    Grant { at: usize, nonce: String },
    Report { at: usize, nonce: String, ends: SimulatedEnd },
    Heartbeat { at: usize, nonce: String },
    Cancel,
    CancelStage { stage: usize },
    Retry { stage: usize, from: RetryStart },
    Resolve { at: usize, resolution: OutcomeResolution },
    Enter,
    Superseded,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RunAnswer {
    Done,
    Granted(Box<Attempt>),
    Order(RunnerOrder),
    Refused(CommandRefusal),
}

/// The decision of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDecision {
    /// The change to write; `None` once it has been written.
    pub change: Option<Box<RunChange>>,
    /// Whether a change was written.
    pub is_change: bool,
    pub events: Vec<NewEvent>,
    pub answer: RunAnswer,
    /// The records rejected the change, so nothing was written.
    pub is_conflict: bool,
}

/// A run with its plan, records and clock.
#[derive(Debug, Clone)]
pub struct RunSimulation {
    pub plan: Plan,
    pub run: Run,
    pub records: RunRecords,
    pub now: Timestamp,
    checker: RunOracle,
    nonces: u64,
}

impl RunSimulation {
    pub fn begin(shape: &PlanShape, tries: u32, is_built: bool) -> Result<Self, RunViolation> {
        Self::begin_as(1, shape, tries, is_built)
    }

    /// Starts the run of the deployment with this number.
    pub(super) fn begin_as(
        number: u8,
        shape: &PlanShape,
        tries: u32,
        is_built: bool,
    ) -> Result<Self, RunViolation> {
        let plan = plan(shape);
        let command = BeginRunCommand {
            deployment: DeploymentId::from_parts(START, [number; 10]),
            pipeline: PipelineId::from_parts(START, [2; 10]),
            built: is_built.then(|| earlier_build(&plan)),
        };
        let told = to_decision(
            begin(&plan, command, &DecisionContext { now: START, epoch: 0, lost_s: 45, entropy: [3; 10] }),
            |()| RunAnswer::Done,
        );
        let Some(mut change) = told.change else { unreachable!("a run that begins is written") };
        for step in &mut change.run.steps {
            Arc::make_mut(step).tries = tries;
        }
        let mut records = RunRecords::with_attempts(tries);
        records.apply(&change)?;
        let Some(run) = records.load() else { unreachable!("it was just written") };
        ensure!(run == change.run, "written", "the started run differs from the written one");
        let checker = RunOracle::new(&plan, &run)?;
        Ok(Self { plan, run, records, now: START, checker, nonces: 0 })
    }

    /// Performs a command. If it refers to a step or stage that does not exist, it has no effect.
    pub fn perform(&mut self, command: &RunCommand) -> Result<Vec<(RunRequest, RunDecision)>, RunViolation> {
        match command {
            RunCommand::AdvanceClock { micros } => {
                self.now = Timestamp::from_micros(self.now.as_micros() + micros);
            }
            RunCommand::AdvanceUntilReady { offset_micros } => {
                if let Some(at) = self.run.next_ready_at() {
                    self.now = self.now.max(Timestamp::from_micros(at.as_micros() + offset_micros));
                }
            }
            RunCommand::Crash { undone, ends } => return self.crash(undone.as_deref(), *ends),
            other => {
                if let Some(asked) = self.resolve_command(other) {
                    let told = self.execute_request(&asked)?;
                    return Ok(vec![(asked, told)]);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Crashes the process: unwritten decisions are lost, and all running attempts end.
    pub fn crash(
        &mut self,
        undone: Option<&RunCommand>,
        ends: SimulatedEnd,
    ) -> Result<Vec<(RunRequest, RunDecision)>, RunViolation> {
        if let Some(asked) = undone.and_then(|command| self.resolve_command(command)) {
            let _ = decide(&self.run, &self.plan, &asked, self.now);
        }
        let Some(run) = self.records.load() else { unreachable!("it was written when it began") };
        self.run = run;
        let live = self.run.steps.iter().enumerate();
        let live = live.filter_map(|(at, step)| Some((at, step.live.as_ref()?.nonce.clone())));
        let asked: Vec<_> = live.map(|(at, nonce)| RunRequest::Report { at, nonce, ends }).collect();
        asked.into_iter().map(|asked| Ok((asked.clone(), self.execute_request(&asked)?))).collect()
    }

    pub fn execute_request(&mut self, asked: &RunRequest) -> Result<RunDecision, RunViolation> {
        let mut told = decide(&self.run, &self.plan, asked, self.now);
        let Some(change) = told.change.take() else {
            let (plan, now) = (&self.plan, self.now);
            self.checker.check_step(&ObservedRunStep {
                plan,
                asked,
                before: &self.run,
                told: &told,
                after: &self.run,
                now,
            })?;
            return Ok(told);
        };
        if self.records.check_nonces(&change).is_err() {
            let is_again = matches!(asked, RunRequest::Grant { at, nonce } if self.is_spent(*at, nonce));
            ensure!(is_again, "E2", "{asked:?} made a second attempt with one nonce");
            told.is_conflict = true;
            return Ok(told);
        }
        self.records.apply(&change)?;
        let is_written = self.records.matches_run(&change.run);
        ensure!(is_written, "written", "{asked:?}: the run that was handed out is not the one written");
        told.is_change = true;
        let (plan, now) = (&self.plan, self.now);
        self.checker.check_step(&ObservedRunStep {
            plan,
            asked,
            before: &self.run,
            told: &told,
            after: &change.run,
            now,
        })?;
        self.run = change.run;
        Ok(told)
    }

    fn is_spent(&self, at: usize, nonce: &str) -> bool {
        let id = self.run.steps[at].id;
        self.records.attempts_of(id).any(|it| it.nonce == nonce && it.end.is_some())
    }

    /// Returns an unused nonce.
    pub fn next_nonce(&mut self) -> String {
        self.nonces += 1;
        format!("n{}", self.nonces)
    }

    fn resolve_command(&mut self, command: &RunCommand) -> Option<RunRequest> {
        Some(match command {
            RunCommand::Grant { step, nonce } => {
                let at = self.pick_step(*step)?;
                let last = self.records.last_attempt(self.run.steps[at].id).map(|it| it.nonce.clone());
                match (nonce, last) {
                    (GrantNonce::Again, Some(nonce)) => RunRequest::Grant { at, nonce },
                    _ => RunRequest::Grant { at, nonce: self.next_nonce() },
                }
            }
            RunCommand::Report { step, nonce, ends } => {
                let at = self.pick_step(*step)?;
                RunRequest::Report { at, nonce: self.nonce_to_report(at, *nonce)?, ends: *ends }
            }
            RunCommand::Heartbeat { step, nonce } => {
                let at = self.pick_step(*step)?;
                RunRequest::Heartbeat { at, nonce: self.nonce_to_report(at, *nonce)? }
            }
            RunCommand::Cancel => RunRequest::Cancel,
            RunCommand::CancelStage { stage } => {
                RunRequest::CancelStage { stage: usize::from(*stage) % self.run.stages.len() }
            }
            RunCommand::Retry { stage, from } => {
                let failed = || self.run.stages.iter().position(|it| it.status == StageRunStatus::Failed);
                let stage = match stage {
                    WhichStage::Failed => failed()?,
                    WhichStage::Any(stage) => usize::from(*stage) % self.run.stages.len(),
                };
                RunRequest::Retry { stage, from: *from }
            }
            RunCommand::Resolve { step, resolution } => {
                RunRequest::Resolve { at: self.pick_step(*step)?, resolution: *resolution }
            }
            RunCommand::Enter => RunRequest::Enter,
            RunCommand::Superseded => RunRequest::Superseded,
            RunCommand::AdvanceClock { .. }
            | RunCommand::AdvanceUntilReady { .. }
            | RunCommand::Crash { .. } => {
                return None;
            }
        })
    }

    fn nonce_to_report(&self, at: usize, which: ReportNonce) -> Option<String> {
        let step = &self.run.steps[at];
        match which {
            ReportNonce::Right => Some(step.live.as_ref()?.nonce.clone()),
            ReportNonce::Old => {
                let mut ended = self.records.attempts_of(step.id).filter(|it| it.end.is_some());
                Some(ended.next()?.nonce.clone())
            }
            ReportNonce::Foreign => Some("foreign".to_owned()),
        }
    }

    fn pick_step(&self, pick: StepPick) -> Option<usize> {
        let with = |status| {
            let steps = self.run.steps.iter().enumerate();
            steps.filter(|(_, step)| step.status == status).map(|(at, _)| at).collect()
        };
        let (found, place): (Vec<usize>, u8) = match pick {
            StepPick::Ready(place) => (with(StepRunStatus::Ready), place),
            StepPick::Live(place) => (with(StepRunStatus::Running), place),
            StepPick::Waiting(place) => (with(StepRunStatus::Waiting), place),
            StepPick::Any(place) => ((0..self.run.steps.len()).collect(), place),
        };
        found.get(usize::from(place) % found.len().max(1)).copied()
    }
}

/// Applies a request to the rules; writes nothing.
pub(super) fn decide(run: &Run, plan: &Plan, asked: &RunRequest, now: Timestamp) -> RunDecision {
    let done = |()| RunAnswer::Done;
    match asked {
        RunRequest::Grant { at, nonce } => {
            let command = GrantStep {
                step: run.steps[*at].id,
                runner: "runner".into(),
                nonce: nonce.clone(),
                lost_ms: None,
                passes_gates: false,
            };
            let granted = |it| RunAnswer::Granted(Box::new(it));
            grant::grant(run, plan, &command, now)
                .map_or_else(refused_decision, |it| to_decision(it, granted))
        }
        RunRequest::Report { at, nonce, ends } => {
            let (step, outcome) = (run.steps[*at].id, ends.outcome(run.steps[*at].step.as_str()));
            to_decision(report::report(run, plan, step, nonce, outcome, now), RunAnswer::Order)
        }
        RunRequest::Heartbeat { at, nonce } => to_decision(
            RuleDecision::without_changes(report::order(run, run.steps[*at].id, nonce)),
            RunAnswer::Order,
        ),
        RunRequest::Cancel => to_decision(cancel::cancel(run, plan, &cancel_by_person(), now), done),
        RunRequest::CancelStage { stage } => {
            let name = &run.stages[*stage].name;
            cancel::cancel_stage(run, plan, name, &cancel_by_person(), now)
                .map_or_else(refused_decision, |it| to_decision(it, done))
        }
        RunRequest::Retry { stage, from } => {
            let name = &run.stages[*stage].name;
            retry::retry(run, plan, name, *from, &BTreeSet::new(), now)
                .map_or_else(refused_decision, |it| to_decision(it, done))
        }
        RunRequest::Resolve { at, resolution } => {
            let resolved = resolve::resolve(run, plan, run.steps[*at].id, *resolution, now);
            resolved.map_or_else(refused_decision, |it| to_decision(it, done))
        }
        RunRequest::Enter => to_decision(enter::enter_queued_stage(run, plan, now), done),
        RunRequest::Superseded => to_decision(enter::end_superseded(run, plan, now), done),
    }
}

pub(super) fn cancel_by_person() -> CancelRequest {
    CancelRequest { by: Actor::system(), cause: CancelCause::Requested, reason: None }
}

fn to_decision<A>(decision: RuleDecision<A>, answer: impl FnOnce(A) -> RunAnswer) -> RunDecision {
    let mut changes = decision.changes.into_iter();
    let change = match changes.next() {
        Some(RecordChange::Put(DomainRecord::Run(change))) => Some(change),
        _ => None,
    };
    RunDecision {
        change,
        is_change: false,
        events: decision.events,
        answer: answer(decision.answer),
        is_conflict: false,
    }
}

fn refused_decision(refusal: CommandRefusal) -> RunDecision {
    RunDecision {
        change: None,
        is_change: false,
        events: Vec::new(),
        answer: RunAnswer::Refused(refusal),
        is_conflict: false,
    }
}

/// Returns build results as if from an earlier deployment, including skipped steps.
fn earlier_build(plan: &Plan) -> BuildResults {
    let build = plan.stages.iter().find(|stage| stage.kind == StageType::Build);
    let steps = build.into_iter().flat_map(|stage| stage.steps.iter().enumerate());
    let ran = steps.filter(|(_, step)| step.when == berth_core::deployment::run::StepActivation::Always);
    let steps = ran.map(|(at, _)| (at, Default::default())).collect();
    BuildResults { by: DeploymentId::from_parts(START, [4; 10]), steps }
}

impl fmt::Display for RunDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            _ if self.is_conflict => f.write_str("rolled back: the nonce was used before")?,
            RunAnswer::Done => f.write_str("done")?,
            RunAnswer::Granted(attempt) => write!(f, "granted attempt {}", attempt.number)?,
            RunAnswer::Order(order) => write!(f, "{order:?}")?,
            RunAnswer::Refused(refusal) => write!(f, "no: {refusal}")?,
        }
        for event in &self.events {
            write!(f, "\n         + {} {}", event.kind, event.data)?;
        }
        Ok(())
    }
}
