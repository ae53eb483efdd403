//! The oracle: checks every step and reports which promise it breaks.
//!
//! It shares no code with the rules: it reads the plan, remembers reports, and compares. Checks are named after
//! the promises they verify (`E1`, `E3`, …).

mod events;
mod grants;
mod moves;
mod people;
mod progress;
mod repeats;
mod reports;

use std::fmt;

use berth_core::run::{Plan, PlannedStep, Run, StepRun};
use berth_core::time::Timestamp;

use super::scene::{Answer, Asked, Told};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.rule, self.what)
    }
}

pub(super) type Checked = Result<(), Violation>;

macro_rules! ensure {
    ($fine:expr, $rule:literal, $($what:tt)+) => {
        if !$fine {
            return Err($crate::runs::check::Violation { rule: $rule, what: format!($($what)+) });
        }
    };
}
pub(super) use ensure;

/// One step as the oracle sees it.
pub(super) struct Seen<'a> {
    pub(super) plan: &'a Plan,
    pub(super) asked: &'a Asked,
    pub(super) before: &'a Run,
    pub(super) told: &'a Told,
    /// As stored now.
    pub(super) after: &'a Run,
    pub(super) now: Timestamp,
}

impl<'a> Seen<'a> {
    fn planned(&self, step: &StepRun) -> &'a PlannedStep {
        &self.plan.stages[step.stage].steps[step.index]
    }

    /// Each step before and after, with its position.
    fn steps(&self) -> impl Iterator<Item = (usize, &'a StepRun, &'a StepRun)> {
        let pairs = self.before.steps.iter().zip(&self.after.steps);
        pairs.enumerate().map(|(at, (before, after))| (at, before.as_ref(), after.as_ref()))
    }

    fn is_refused(&self) -> bool {
        matches!(self.told.answer, Answer::Refused(_))
    }
}

/// The oracle's state of each step since its stage started.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// It may not be granted earlier.
    earliest: Option<Timestamp>,
    /// As far as is known, part of it ran.
    has_run: bool,
    /// Its outcome is unknown and unresolved.
    is_unanswered: bool,
}

#[derive(Debug, Clone)]
pub struct Checker {
    steps: Vec<Memory>,
}

impl Checker {
    pub(super) fn new(plan: &Plan, run: &Run) -> Result<Self, Violation> {
        progress::check(plan, run, super::scene::START)?;
        Ok(Self { steps: vec![Memory::default(); run.steps.len()] })
    }

    pub(super) fn look(&mut self, seen: &Seen<'_>) -> Checked {
        if !seen.told.is_change {
            ensure!(seen.told.events.is_empty(), "events", "{:?}: an event without a change", seen.asked);
            ensure!(seen.before == seen.after, "written", "{:?}: a change nobody decided", seen.asked);
        } else if *seen.asked != Asked::Overtaken {
            // For a superseded run the event comes from its deployment, in the same commit.
            ensure!(!seen.told.events.is_empty(), "events", "{:?}: a change without an event", seen.asked);
        }
        moves::check(seen)?;
        grants::check(seen, &self.steps)?;
        reports::check(seen)?;
        people::check(seen)?;
        self.remember(seen);
        reports::check_left_over(seen, &self.steps)?;
        events::check(seen)?;
        repeats::check(seen)?;
        progress::check(seen.plan, seen.after, seen.now)
    }

    fn remember(&mut self, seen: &Seen<'_>) {
        if !seen.told.is_change {
            return;
        }
        match seen.asked {
            Asked::Report { at, ends, .. } => {
                let step = &seen.after.steps[*at];
                reports::remember(&mut self.steps[*at], seen.planned(step), *ends, seen.now);
            }
            Asked::Resolve { at, .. } => self.steps[*at].is_unanswered = false,
            Asked::Retry { stage, .. } => {
                for (memory, step) in self.steps.iter_mut().zip(&seen.after.steps) {
                    if step.stage >= *stage {
                        *memory = Memory::default();
                    }
                }
            }
            _ => {}
        }
    }
}
