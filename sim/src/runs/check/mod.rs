//! The oracle: checks every step and reports which rule it violates.
//!
//! It shares no code with the rules of `berth-core`: it reads the plan, tracks reports by itself, and compares. A
//! violation names the rule:
//!
//! - `E1`: states change only along the state graph, and are consistent with each other.
//! - `E2`: a nonce is granted one attempt, and a step has one live attempt.
//! - `E3`: a step starts only when its stage is open and its needs are met.
//! - `E4`: an unfinished run can always continue, and a finished run has nothing left to do.
//! - `E9`: cancelled steps do not succeed, and nothing starts after a cancellation.
//! - `E10`: a retry repeats exactly the steps that did not succeed.
//! - `E14`: attempts and calls are numbered without gaps.

mod events;
mod grants;
mod moves;
mod people;
mod progress;
mod repeats;
mod reports;

use std::fmt;

use berth_core::deployment::run::{Plan, Run, StepPlan, StepRun};
use berth_core::time::Timestamp;

use super::simulation::{RunAnswer, RunDecision, RunRequest};

/// A violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunViolation {
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for RunViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.rule, self.what)
    }
}

pub(super) type RunCheckResult = Result<(), RunViolation>;

macro_rules! ensure {
    ($fine:expr, $rule:literal, $($what:tt)+) => {
        if !$fine {
            return Err($crate::runs::check::RunViolation { rule: $rule, what: format!($($what)+) });
        }
    };
}
pub(super) use ensure;

/// One change of the run as the oracle sees it.
pub(super) struct ObservedRunStep<'a> {
    pub(super) plan: &'a Plan,
    pub(super) asked: &'a RunRequest,
    pub(super) before: &'a Run,
    pub(super) told: &'a RunDecision,
    /// The run as stored after the change.
    pub(super) after: &'a Run,
    pub(super) now: Timestamp,
}

impl<'a> ObservedRunStep<'a> {
    fn plan_of_step(&self, step: &StepRun) -> &'a StepPlan {
        &self.plan.stages[step.stage].steps[step.index]
    }

    /// Returns the position of each step, and its state before and after the change.
    fn steps(&self) -> impl Iterator<Item = (usize, &'a StepRun, &'a StepRun)> {
        let pairs = self.before.steps.iter().zip(&self.after.steps);
        pairs.enumerate().map(|(at, (before, after))| (at, before.as_ref(), after.as_ref()))
    }

    fn is_refused(&self) -> bool {
        matches!(self.told.answer, RunAnswer::Refused(_))
    }
}

/// What the oracle knows about a step since its stage started.
#[derive(Debug, Clone, Default)]
struct StepMemory {
    /// The step must not be granted before this time.
    earliest: Option<Timestamp>,
    /// An attempt may have executed part of the step.
    has_run: bool,
    /// The step's outcome is unknown, and no person has resolved it yet.
    is_unanswered: bool,
}

/// The oracle's state.
#[derive(Debug, Clone)]
pub struct RunOracle {
    steps: Vec<StepMemory>,
}

impl RunOracle {
    pub(super) fn new(plan: &Plan, run: &Run) -> Result<Self, RunViolation> {
        progress::check(plan, run, super::simulation::START)?;
        Ok(Self { steps: vec![StepMemory::default(); run.steps.len()] })
    }

    pub(super) fn check_step(&mut self, seen: &ObservedRunStep<'_>) -> RunCheckResult {
        if !seen.told.is_change {
            ensure!(seen.told.events.is_empty(), "events", "{:?}: an event without a change", seen.asked);
            ensure!(seen.before == seen.after, "written", "{:?}: a change without a decision", seen.asked);
        } else if *seen.asked != RunRequest::Superseded {
            // Superseding a run is exempt: its event is recorded by the deployment, in the same commit.
            ensure!(!seen.told.events.is_empty(), "events", "{:?}: a change without an event", seen.asked);
        }
        moves::check(seen)?;
        grants::check(seen, &self.steps)?;
        reports::check(seen)?;
        people::check(seen)?;
        self.update_memory(seen);
        reports::check_left_over(seen, &self.steps)?;
        events::check(seen)?;
        repeats::check(seen)?;
        progress::check(seen.plan, seen.after, seen.now)
    }

    fn update_memory(&mut self, seen: &ObservedRunStep<'_>) {
        if !seen.told.is_change {
            return;
        }
        match seen.asked {
            RunRequest::Report { at, ends, .. } => {
                let step = &seen.after.steps[*at];
                reports::update_step_memory(&mut self.steps[*at], seen.plan_of_step(step), *ends, seen.now);
            }
            RunRequest::Resolve { at, .. } => self.steps[*at].is_unanswered = false,
            RunRequest::Retry { stage, .. } => {
                for (memory, step) in self.steps.iter_mut().zip(&seen.after.steps) {
                    if step.stage >= *stage {
                        *memory = StepMemory::default();
                    }
                }
            }
            _ => {}
        }
    }
}
