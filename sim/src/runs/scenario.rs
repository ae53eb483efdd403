//! A plan with a script of everything that will happen to it: how each execution ends, when the process crashes, and
//! what people answer.
//!
//! The same policy drives the rules here and the reference in `expected`. In each turn, the first of these actions that
//! is possible is taken: retry a failure while retries are left · perform a crash or cancellation that is due · enter a
//! waiting stage · grant a step, up to `width` at a time, lowest rank first · end the running step with the highest
//! rank · resolve the first step with an unknown outcome.

use std::collections::BTreeSet;
use std::fmt;

use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{OutcomeResolution, RunStatus, StageRunStatus, StepRunStatus};
use berth_core::step::OnLost;

use super::check::{RunViolation, ensure};
use super::command::SimulatedEnd;
use super::expected::ScenarioEnding;
use super::plans::{PlanShape, shape};
use super::simulation::{RunRequest, RunSimulation};
use crate::random::SeededRandom;

/// A plan and a script of everything that happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    pub shape: PlanShape,
    /// Maximum number of steps that run in parallel.
    pub width: usize,
    /// One entry per step, in the order of the plan; the same holds for `script` and `answers`.
    pub ranks: Vec<u64>,
    /// How the executions of each step end, unless a crash ends them. After the last entry, all executions succeed.
    pub script: Vec<Vec<SimulatedEnd>>,
    pub answers: Vec<Vec<OutcomeResolution>>,
    /// Turns in which the process crashes.
    pub crashes: BTreeSet<u32>,
    pub cancel_at: Option<u32>,
    pub retries: Vec<RetryStart>,
}

pub(super) const TURNS_MAX: u32 = 2_000;

/// Generates the scenario for a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut chance = SeededRandom::from_seed(seed);
    let mut shape = shape(&mut chance);
    let is_idempotent = chance.percent(30);
    if is_idempotent {
        let steps = shape.stages.iter_mut().flat_map(|(_, steps)| steps);
        steps.for_each(|step| step.on_lost = OnLost::Retry);
    }
    let luck = chance.pick(&[40, 75, 95]);
    let count: usize = shape.stages.iter().map(|(_, steps)| steps.len()).sum();
    let ranks = (0..count).map(|_| chance.draw()).collect();
    let script = (0..count).map(|_| random_ends(&mut chance, luck)).collect();
    let answers = (0..count).map(|_| {
        let given = chance.below(3);
        let all = [OutcomeResolution::Ran, OutcomeResolution::Retry, OutcomeResolution::Fail];
        (0..given).map(|_| chance.pick(&all)).collect()
    });
    let answers = answers.collect();
    let crashes = (0..chance.below(4)).map(|_| u32::from(chance.below_u8(40))).collect();
    let cancel_at = chance.percent(15).then(|| u32::from(chance.below_u8(30)));
    let retries = (0..chance.below(3))
        .map(|_| chance.pick(&[RetryStart::Failed, RetryStart::Failed, RetryStart::Start]));
    let retries = retries.collect();
    let width = usize::from(chance.pick(&[1u8, 1, 2, 3, 8]));
    Scenario { shape, width, ranks, script, answers, crashes, cancel_at, retries }
}

fn random_ends(chance: &mut SeededRandom, luck: u64) -> Vec<SimulatedEnd> {
    match chance.below(40) {
        // Repeat the same outcome many times, to reach limits.
        0 => vec![SimulatedEnd::NeverStarted; 8 + usize::from(chance.below_u8(5))],
        1 => vec![SimulatedEnd::Lost; 2 + usize::from(chance.below_u8(4))],
        2 => vec![SimulatedEnd::Failed; 1 + usize::from(chance.below_u8(4))],
        _ => {
            (0..chance.below(6))
                .map(|_| {
                    if chance.percent(luck) {
                        SimulatedEnd::Succeeded
                    } else {
                        chance.pick(&SimulatedEnd::ALL)
                    }
                })
                .collect()
        }
    }
}

/// Plays the scenario, with the oracle checking every step, and returns the final state.
pub fn play(scenario: &Scenario) -> Result<ScenarioEnding, RunViolation> {
    let mut simulation = RunSimulation::begin(&scenario.shape, 0, false)?;
    let mut player = ScenarioPlayer {
        scenario,
        reported: vec![0; scenario.script.len()],
        answered: vec![0; scenario.answers.len()],
        retried: 0,
    };
    for turn in 0..TURNS_MAX {
        if !player.take_turn(turn, &mut simulation)? {
            return Ok(final_state(&simulation));
        }
    }
    ensure!(false, "E4", "the run does not come to an end");
    Ok(final_state(&simulation))
}

impl Scenario {
    /// Returns whether crashes only cost time: every execution that a crash ends is repeated, within the limits.
    pub(super) fn is_immune(&self) -> bool {
        let mut steps = self.shape.stages.iter().flat_map(|(_, steps)| steps);
        let is_retried = steps.all(|step| step.on_lost == OnLost::Retry);
        let losses = self.script.iter().flatten().filter(|ends| ends.is_unknown()).count();
        // A crash resets the count of attempts that never started. The count must stay below the limit even without
        // crashes, so that crashes make no difference.
        let false_starts =
            self.script.iter().map(|ends| ends.iter().filter(|it| **it == SimulatedEnd::NeverStarted));
        let is_few = false_starts.into_iter().all(|row| row.count() < 8);
        is_retried && is_few && losses == 0 && self.crashes.len() <= 3 && self.cancel_at.is_none()
    }
}

struct ScenarioPlayer<'a> {
    scenario: &'a Scenario,
    reported: Vec<usize>,
    answered: Vec<usize>,
    retried: usize,
}

impl ScenarioPlayer<'_> {
    /// Takes one turn; returns false if nothing is left to do.
    fn take_turn(&mut self, turn: u32, simulation: &mut RunSimulation) -> Result<bool, RunViolation> {
        // Skip more time than any retry delay.
        simulation.now = simulation.now.plus_seconds(3_600);
        if simulation.run.status().is_final() {
            let failed =
                simulation.run.stages.iter().position(|stage| stage.status == StageRunStatus::Failed);
            let from = self.scenario.retries.get(self.retried);
            let (Some(stage), Some(from)) = (failed, from) else { return Ok(false) };
            self.retried += 1;
            simulation.execute_request(&RunRequest::Retry { stage, from: *from })?;
            return Ok(true);
        }
        if self.scenario.crashes.contains(&turn) {
            simulation.crash(None, SimulatedEnd::Lost)?;
            return Ok(true);
        }
        let Some(asked) = self.next_request(turn, simulation) else { return Ok(false) };
        simulation.execute_request(&asked)?;
        Ok(true)
    }

    fn next_request(&mut self, turn: u32, simulation: &mut RunSimulation) -> Option<RunRequest> {
        if self.scenario.cancel_at == Some(turn) {
            return Some(RunRequest::Cancel);
        }
        if simulation.run.queued_for().is_some() {
            return Some(RunRequest::Enter);
        }
        let steps = || simulation.run.steps.iter().enumerate();
        let live = || steps().filter(|(_, step)| step.live.is_some()).map(|(at, _)| at);
        let rank = |at: &usize| self.scenario.ranks[*at];
        let ready = simulation.run.ready_steps(simulation.now).into_iter().min_by_key(rank);
        if let Some(at) = ready.filter(|_| live().count() < self.scenario.width) {
            return Some(RunRequest::Grant { at, nonce: simulation.next_nonce() });
        }
        if let Some(at) = live().max_by_key(rank) {
            let ends =
                self.scenario.script[at].get(self.reported[at]).copied().unwrap_or(SimulatedEnd::Succeeded);
            self.reported[at] += 1;
            let nonce = simulation.run.steps[at].live.as_ref()?.nonce.clone();
            return Some(RunRequest::Report { at, nonce, ends });
        }
        let (at, _) = steps().find(|(_, step)| step.status == StepRunStatus::Waiting)?;
        let resolution = *self.scenario.answers[at].get(self.answered[at])?;
        self.answered[at] += 1;
        Some(RunRequest::Resolve { at, resolution })
    }
}

fn final_state(simulation: &RunSimulation) -> ScenarioEnding {
    let executions = |id| u32::try_from(simulation.records.attempts_of(id).count()).unwrap_or(u32::MAX);
    let run = match simulation.run.status() {
        RunStatus::Running => "running",
        RunStatus::Waiting => "waiting",
        RunStatus::Cancelling(_) => "cancelling",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed(_) => "failed",
        RunStatus::Cancelled(_) => "cancelled",
    };
    ScenarioEnding {
        run,
        stages: simulation.run.stages.iter().map(|stage| stage.status.as_str()).collect(),
        steps: simulation.run.steps.iter().map(|step| (step.status.as_str(), executions(step.id))).collect(),
    }
}

impl RunSimulation {
    /// From here on, lets every step succeed and resolves unknown outcomes. The run must reach its end.
    pub fn conclude(&mut self) -> Result<(), RunViolation> {
        for _ in 0..TURNS_MAX {
            let is_queued = self.run.queued_for().is_some();
            let Some(asked) = is_queued.then_some(RunRequest::Enter).or_else(|| self.next_action()) else {
                break;
            };
            self.execute_request(&asked)?;
        }
        let status = self.run.status();
        ensure!(status.is_final(), "E4", "the run is {status:?} and nothing brings it to an end");
        Ok(())
    }

    /// Returns the next action towards a successful end, except for entering a stage.
    pub(super) fn next_action(&mut self) -> Option<RunRequest> {
        let steps = || self.run.steps.iter().enumerate();
        if let Some((at, nonce)) =
            steps().find_map(|(at, step)| Some((at, step.live.as_ref()?.nonce.clone())))
        {
            return Some(RunRequest::Report { at, nonce, ends: SimulatedEnd::Succeeded });
        }
        if let Some(ready_at) = self.run.next_ready_at() {
            self.now = self.now.max(ready_at);
            let at = self.run.ready_steps(self.now).first().copied()?;
            return Some(RunRequest::Grant { at, nonce: self.next_nonce() });
        }
        let waiting = steps().find(|(_, step)| step.status == StepRunStatus::Waiting).map(|(at, _)| at);
        waiting.map(|at| RunRequest::Resolve { at, resolution: OutcomeResolution::Ran })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { shape, width, ranks, script, answers, crashes, cancel_at, retries } = self;
        writeln!(f, "{shape}     {width} at a time, ranks {ranks:?}")?;
        writeln!(f, "     ends {script:?}\n     answers {answers:?}")?;
        writeln!(f, "     crashes {crashes:?}, cancelled at {cancel_at:?}, retries {retries:?}")
    }
}
