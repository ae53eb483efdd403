//! Runs sequences, and traces a sequence that violates a rule.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::check::RunViolation;
use super::expected::{ScenarioEnding, expected_ending};
use super::generate::RunSequence;
use super::scenario::{Scenario, play};
use super::simulation::RunSimulation;

/// A sequence that violated a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedRunSequence {
    pub violation: RunViolation,
    pub trace: String,
}

impl fmt::Display for FailedRunSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.violation, self.trace)
    }
}

/// Runs every command, and then drives the run to its end: no run may hang.
pub fn check(sequence: &RunSequence) -> Result<RunSimulation, RunViolation> {
    let mut simulation = RunSimulation::begin(&sequence.shape, sequence.tries, sequence.is_built)?;
    for command in &sequence.commands {
        simulation.perform(command)?;
    }
    simulation.conclude()?;
    Ok(simulation)
}

/// Like [`check`], but returns a minimized trace on failure.
pub fn run(sequence: &RunSequence) -> Result<RunSimulation, Box<FailedRunSequence>> {
    check(sequence).map_err(|violation| {
        let trace = trace(&minimize(sequence, &violation));
        Box::new(FailedRunSequence { violation, trace })
    })
}

/// Removes commands that are not needed to violate the same rule.
fn minimize(sequence: &RunSequence, violation: &RunViolation) -> RunSequence {
    let mut kept = sequence.clone();
    let mut index = kept.commands.len();
    while index > 0 {
        index -= 1;
        let mut shorter = kept.clone();
        shorter.commands.remove(index);
        if check(&shorter).is_err_and(|other| other.rule == violation.rule) {
            kept = shorter;
            index = index.min(kept.commands.len());
        }
    }
    kept
}

/// Returns a trace up to the first violation.
pub fn trace(sequence: &RunSequence) -> String {
    let mut text = sequence.shape.to_string();
    let mut simulation = match RunSimulation::begin(&sequence.shape, sequence.tries, sequence.is_built) {
        Ok(simulation) => simulation,
        Err(violation) => return format!("{text}{violation}\n"),
    };
    for (number, command) in sequence.commands.iter().enumerate() {
        let _ = writeln!(text, "{number:>3}. {command}");
        match simulation.perform(command) {
            Ok(steps) => {
                for (asked, told) in steps {
                    let _ = writeln!(text, "     {asked:?}\n       {told}");
                }
            }
            Err(violation) => {
                let _ = writeln!(text, "     {violation}");
                return text;
            }
        }
    }
    if let Err(violation) = simulation.conclude() {
        let _ = writeln!(text, "     on the way to its end: {violation}");
    }
    text
}

/// Plays a scenario and compares its end with the reference. If crashes must not affect the end, also compares it with
/// that of the same scenario without crashes.
pub fn compare(scenario: &Scenario) -> Result<(), Box<FailedRunSequence>> {
    let broken = |rule, what| {
        let violation = RunViolation { rule, what };
        Box::new(FailedRunSequence { violation, trace: scenario.to_string() })
    };
    let played = play(scenario).map_err(|violation| broken(violation.rule, violation.what))?;
    let right = expected_ending(scenario);
    if played != right {
        return Err(broken("reference", format!("it ended as\n     {played:?}, not as\n     {right:?}")));
    }
    if !scenario.is_immune() {
        return Ok(());
    }
    let calm = expected_ending(&Scenario { crashes: BTreeSet::new(), ..scenario.clone() });
    let words = |ending: &ScenarioEnding| ending.steps.iter().map(|(word, _)| *word).collect::<Vec<_>>();
    let is_same = (calm.run, &calm.stages, words(&calm)) == (played.run, &played.stages, words(&played));
    // With parallel steps, timing determines which steps are left undone when a stage fails, so the ends may differ.
    if is_same || (scenario.width > 1 && calm.run != "succeeded") {
        return Ok(());
    }
    Err(broken("E4", format!("it ended as\n     {played:?}, and without the crashes as\n     {calm:?}")))
}
