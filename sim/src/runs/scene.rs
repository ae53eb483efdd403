//! A run and its surroundings: applies commands to the rules, commits their decisions, and can crash.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use berth_core::decision::{Change, Decision, Record, Refusal};
use berth_core::deployment::report::Order;
use berth_core::deployment::{Cancel, CancelCause};
use berth_core::environment::Moment;
use berth_core::event::{Actor, NewEvent};
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::run::begin::{Begin, Built, begin};
use berth_core::run::grant::GrantStep;
use berth_core::run::retry::From;
use berth_core::run::{
    Attempt, Plan, Resolution, Run, RunChange, StageKind, StageStatus, StepStatus, cancel, enter, grant,
    report, resolve, retry,
};
use berth_core::time::Timestamp;

use super::check::{Checker, Seen, Violation, ensure};
use super::command::{Command, Ends, GrantNonce, Pick, ReportNonce, WhichStage};
use super::plans::{Shape, plan};
use super::records::Records;

/// 2026-11-15T08:00:00Z.
pub(super) const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

/// A command whose names are resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Grant { at: usize, nonce: String },
    Report { at: usize, nonce: String, ends: Ends },
    Beat { at: usize, nonce: String },
    Cancel,
    CancelStage { stage: usize },
    Retry { stage: usize, from: From },
    Resolve { at: usize, resolution: Resolution },
    Enter,
    Overtaken,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Done,
    Granted(Box<Attempt>),
    Order(Order),
    Refused(Refusal),
}

/// The decision of any rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Not yet written.
    pub change: Option<Box<RunChange>>,
    /// Whether it was written.
    pub is_change: bool,
    pub events: Vec<NewEvent>,
    pub answer: Answer,
    /// The records rejected it: nothing was written.
    pub is_conflict: bool,
}

#[derive(Debug, Clone)]
pub struct Scene {
    pub plan: Plan,
    pub run: Run,
    pub records: Records,
    pub now: Timestamp,
    checker: Checker,
    nonces: u64,
}

impl Scene {
    pub fn begin(shape: &Shape, tries: u32, is_built: bool) -> Result<Self, Violation> {
        Self::begin_as(1, shape, tries, is_built)
    }

    /// The run of the deployment with this number.
    pub(super) fn begin_as(number: u8, shape: &Shape, tries: u32, is_built: bool) -> Result<Self, Violation> {
        let plan = plan(shape);
        let command = Begin {
            deployment: DeploymentId::from_parts(START, [number; 10]),
            pipeline: PipelineId::from_parts(START, [2; 10]),
            built: is_built.then(|| built(&plan)),
        };
        let told = told(
            begin(&plan, command, &Moment { now: START, epoch: 0, lost_s: 45, entropy: [3; 10] }),
            |()| Answer::Done,
        );
        let Some(mut change) = told.change else { unreachable!("a run that begins is written") };
        for step in &mut change.run.steps {
            Arc::make_mut(step).tries = tries;
        }
        let mut records = Records::with_tries(tries);
        records.apply(&change)?;
        let Some(run) = records.load() else { unreachable!("it was just written") };
        ensure!(run == change.run, "written", "what was begun is not what was written");
        let checker = Checker::new(&plan, &run)?;
        Ok(Self { plan, run, records, now: START, checker, nonces: 0 })
    }

    /// Performs a command. A command that names nothing has no effect.
    pub fn perform(&mut self, command: &Command) -> Result<Vec<(Asked, Told)>, Violation> {
        match command {
            Command::Pass { micros } => self.now = Timestamp::from_micros(self.now.as_micros() + micros),
            Command::PassUntilReady { offset_micros } => {
                if let Some(at) = self.run.ready_at() {
                    self.now = self.now.max(Timestamp::from_micros(at.as_micros() + offset_micros));
                }
            }
            Command::Crash { undone, ends } => return self.crash(undone.as_deref(), *ends),
            other => {
                if let Some(asked) = self.meant(other) {
                    let told = self.ask(&asked)?;
                    return Ok(vec![(asked, told)]);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Unwritten decisions are lost, and everything that ran has ended.
    pub fn crash(&mut self, undone: Option<&Command>, ends: Ends) -> Result<Vec<(Asked, Told)>, Violation> {
        if let Some(asked) = undone.and_then(|command| self.meant(command)) {
            let _ = decide(&self.run, &self.plan, &asked, self.now);
        }
        let Some(run) = self.records.load() else { unreachable!("it was written when it began") };
        self.run = run;
        let live = self.run.steps.iter().enumerate();
        let live = live.filter_map(|(at, step)| Some((at, step.live.as_ref()?.nonce.clone())));
        let asked: Vec<_> = live.map(|(at, nonce)| Asked::Report { at, nonce, ends }).collect();
        asked.into_iter().map(|asked| Ok((asked.clone(), self.ask(&asked)?))).collect()
    }

    pub fn ask(&mut self, asked: &Asked) -> Result<Told, Violation> {
        let mut told = decide(&self.run, &self.plan, asked, self.now);
        let Some(change) = told.change.take() else {
            let (plan, now) = (&self.plan, self.now);
            self.checker.look(&Seen {
                plan,
                asked,
                before: &self.run,
                told: &told,
                after: &self.run,
                now,
            })?;
            return Ok(told);
        };
        if self.records.conflicts(&change).is_err() {
            let is_again = matches!(asked, Asked::Grant { at, nonce } if self.is_spent(*at, nonce));
            ensure!(is_again, "E2", "{asked:?} made a second attempt with one nonce");
            told.is_conflict = true;
            return Ok(told);
        }
        self.records.apply(&change)?;
        let is_written = self.records.hold(&change.run);
        ensure!(is_written, "written", "{asked:?}: the run that was handed out is not the one written");
        told.is_change = true;
        let (plan, now) = (&self.plan, self.now);
        self.checker.look(&Seen { plan, asked, before: &self.run, told: &told, after: &change.run, now })?;
        self.run = change.run;
        Ok(told)
    }

    fn is_spent(&self, at: usize, nonce: &str) -> bool {
        let id = self.run.steps[at].id;
        self.records.attempts_of(id).any(|it| it.nonce == nonce && it.end.is_some())
    }

    /// An unused nonce.
    pub fn fresh(&mut self) -> String {
        self.nonces += 1;
        format!("n{}", self.nonces)
    }

    fn meant(&mut self, command: &Command) -> Option<Asked> {
        Some(match command {
            Command::Grant { step, nonce } => {
                let at = self.pick(*step)?;
                let last = self.records.last(self.run.steps[at].id).map(|it| it.nonce.clone());
                match (nonce, last) {
                    (GrantNonce::Again, Some(nonce)) => Asked::Grant { at, nonce },
                    _ => Asked::Grant { at, nonce: self.fresh() },
                }
            }
            Command::Report { step, nonce, ends } => {
                let at = self.pick(*step)?;
                Asked::Report { at, nonce: self.nonce(at, *nonce)?, ends: *ends }
            }
            Command::Beat { step, nonce } => {
                let at = self.pick(*step)?;
                Asked::Beat { at, nonce: self.nonce(at, *nonce)? }
            }
            Command::Cancel => Asked::Cancel,
            Command::CancelStage { stage } => {
                Asked::CancelStage { stage: usize::from(*stage) % self.run.stages.len() }
            }
            Command::Retry { stage, from } => {
                let failed = || self.run.stages.iter().position(|it| it.status == StageStatus::Failed);
                let stage = match stage {
                    WhichStage::Failed => failed()?,
                    WhichStage::Any(stage) => usize::from(*stage) % self.run.stages.len(),
                };
                Asked::Retry { stage, from: *from }
            }
            Command::Resolve { step, resolution } => {
                Asked::Resolve { at: self.pick(*step)?, resolution: *resolution }
            }
            Command::Enter => Asked::Enter,
            Command::Overtaken => Asked::Overtaken,
            Command::Pass { .. } | Command::PassUntilReady { .. } | Command::Crash { .. } => return None,
        })
    }

    fn nonce(&self, at: usize, which: ReportNonce) -> Option<String> {
        let step = &self.run.steps[at];
        match which {
            ReportNonce::Right => Some(step.live.as_ref()?.nonce.clone()),
            ReportNonce::Old => {
                let mut ended = self.records.attempts_of(step.id).filter(|it| it.end.is_some());
                Some(ended.next()?.nonce.clone())
            }
            ReportNonce::Foreign => Some("nobody's".to_owned()),
        }
    }

    fn pick(&self, pick: Pick) -> Option<usize> {
        let with = |status| {
            let steps = self.run.steps.iter().enumerate();
            steps.filter(|(_, step)| step.status == status).map(|(at, _)| at).collect()
        };
        let (found, place): (Vec<usize>, u8) = match pick {
            Pick::Ready(place) => (with(StepStatus::Ready), place),
            Pick::Live(place) => (with(StepStatus::Running), place),
            Pick::Waiting(place) => (with(StepStatus::Waiting), place),
            Pick::Any(place) => ((0..self.run.steps.len()).collect(), place),
        };
        found.get(usize::from(place) % found.len().max(1)).copied()
    }
}

/// Applies a request to the rules; writes nothing.
pub(super) fn decide(run: &Run, plan: &Plan, asked: &Asked, now: Timestamp) -> Told {
    let done = |()| Answer::Done;
    match asked {
        Asked::Grant { at, nonce } => {
            let command = GrantStep {
                step: run.steps[*at].id,
                runner: "runner".into(),
                nonce: nonce.clone(),
                lost_ms: None,
                passes_gates: false,
            };
            let granted = |it| Answer::Granted(Box::new(it));
            grant::grant(run, plan, &command, now).map_or_else(refused, |it| told(it, granted))
        }
        Asked::Report { at, nonce, ends } => {
            let (step, outcome) = (run.steps[*at].id, ends.outcome(run.steps[*at].step.as_str()));
            told(report::report(run, plan, step, nonce, outcome, now), Answer::Order)
        }
        Asked::Beat { at, nonce } => {
            told(Decision::calm(report::order(run, run.steps[*at].id, nonce)), Answer::Order)
        }
        Asked::Cancel => told(cancel::cancel(run, plan, &somebody(), now), done),
        Asked::CancelStage { stage } => {
            let name = &run.stages[*stage].name;
            cancel::cancel_stage(run, plan, name, &somebody(), now).map_or_else(refused, |it| told(it, done))
        }
        Asked::Retry { stage, from } => {
            let name = &run.stages[*stage].name;
            retry::retry(run, plan, name, *from, &BTreeSet::new(), now)
                .map_or_else(refused, |it| told(it, done))
        }
        Asked::Resolve { at, resolution } => {
            let resolved = resolve::resolve(run, plan, run.steps[*at].id, *resolution, now);
            resolved.map_or_else(refused, |it| told(it, done))
        }
        Asked::Enter => told(enter::enter(run, plan, now), done),
        Asked::Overtaken => told(enter::overtaken(run, plan, now), done),
    }
}

pub(super) fn somebody() -> Cancel {
    Cancel { by: Actor::system(), cause: CancelCause::Requested, reason: None }
}

fn told<A>(decision: Decision<A>, answer: impl FnOnce(A) -> Answer) -> Told {
    let mut changes = decision.changes.into_iter();
    let change = match changes.next() {
        Some(Change::Put(Record::Run(change))) => Some(change),
        _ => None,
    };
    Told {
        change,
        is_change: false,
        events: decision.events,
        answer: answer(decision.answer),
        is_conflict: false,
    }
}

fn refused(refusal: Refusal) -> Told {
    Told {
        change: None,
        is_change: false,
        events: Vec::new(),
        answer: Answer::Refused(refusal),
        is_conflict: false,
    }
}

/// As left by an earlier deployment, with skipped steps.
fn built(plan: &Plan) -> Built {
    let build = plan.stages.iter().find(|stage| stage.kind == StageKind::Build);
    let steps = build.into_iter().flat_map(|stage| stage.steps.iter().enumerate());
    let ran = steps.filter(|(_, step)| step.when == berth_core::run::When::Always);
    let steps = ran.map(|(at, _)| (at, Default::default())).collect();
    Built { by: DeploymentId::from_parts(START, [4; 10]), steps }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            _ if self.is_conflict => f.write_str("rolled back: the nonce was used before")?,
            Answer::Done => f.write_str("done")?,
            Answer::Granted(attempt) => write!(f, "granted attempt {}", attempt.number)?,
            Answer::Order(order) => write!(f, "{order:?}")?,
            Answer::Refused(refusal) => write!(f, "no: {refusal}")?,
        }
        for event in &self.events {
            write!(f, "\n         + {} {}", event.kind, event.data)?;
        }
        Ok(())
    }
}
