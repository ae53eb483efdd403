//! Reference model: computes from the plan how a scenario must end, without calling the rules of `berth-core`.

use berth_core::deployment::run::limits::{LOST_RETRIES_MAX, NEVER_STARTED_MAX};
use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{OutcomeResolution, StageType};
use berth_core::step::OnLost;

use super::command::SimulatedEnd;
use super::plans::{RunCondition, StepShape};
use super::scenario::{Scenario, TURNS_MAX};

/// The final state of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioEnding {
    pub run: &'static str,
    pub stages: Vec<&'static str>,
    /// The status of each step and how many times it was executed.
    pub steps: Vec<(&'static str, u32)>,
}

/// Computes the final state of a scenario.
pub fn expected_ending(scenario: &Scenario) -> ScenarioEnding {
    let stages = scenario.shape.stages.iter();
    let mut book = ReferenceModel {
        scenario,
        steps: stages.map(|(_, steps)| vec![ReferenceStep::default(); steps.len()]).collect(),
        stage_statuses: vec!["pending"; scenario.shape.stages.len()],
        stage: 0,
        is_over: false,
        retried: 0,
    };
    book.enter_stage();
    for turn in 0..TURNS_MAX {
        if !book.take_turn(turn) {
            break;
        }
    }
    book.ending()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReferenceState {
    #[default]
    Pending,
    Running,
    Waiting,
    Ended(&'static str),
}

#[derive(Debug, Clone, Default)]
struct ReferenceStep {
    state: ReferenceState,
    executions: u32,
    reported: usize,
    answered: usize,
    failures: u32,
    losses: u32,
    false_starts: u32,
}

struct ReferenceModel<'a> {
    scenario: &'a Scenario,
    steps: Vec<Vec<ReferenceStep>>,
    stage_statuses: Vec<&'static str>,
    /// Index of the current stage.
    stage: usize,
    is_over: bool,
    retried: usize,
}

impl ReferenceModel<'_> {
    fn take_turn(&mut self, turn: u32) -> bool {
        if self.is_over {
            return self.retry();
        }
        if self.scenario.crashes.contains(&turn) {
            for at in self.steps_in(ReferenceState::Running) {
                self.end_attempt(at, SimulatedEnd::Lost);
            }
            return true;
        }
        if self.scenario.cancel_at == Some(turn) {
            self.stage_statuses[self.stage] = "cancelling";
        } else if self.stage_statuses[self.stage] == "queued" {
            self.stage_statuses[self.stage] = "running";
        } else if !self.perform_next() {
            return false;
        }
        self.update_status();
        true
    }

    /// Performs the next action; returns false if there is nothing to do.
    fn perform_next(&mut self) -> bool {
        let live = self.steps_in(ReferenceState::Running);
        let startable = self.startable().into_iter().min_by_key(|at| self.rank(*at));
        if let Some(at) = startable.filter(|_| live.len() < self.scenario.width) {
            let fate = self.step_mut(at);
            fate.state = ReferenceState::Running;
            fate.executions += 1;
        } else if let Some(at) = live.into_iter().max_by_key(|at| self.rank(*at)) {
            let script = &self.scenario.script[self.first_position() + at];
            let fate = self.step_mut(at);
            let ends = script.get(fate.reported).copied().unwrap_or(SimulatedEnd::Succeeded);
            fate.reported += 1;
            self.end_attempt(at, ends);
        } else {
            return self.resolve_unknown();
        }
        true
    }

    fn resolve_unknown(&mut self) -> bool {
        let Some(at) = self.steps_in(ReferenceState::Waiting).first().copied() else { return false };
        let answers = &self.scenario.answers[self.first_position() + at];
        let fate = self.step_mut(at);
        let Some(answer) = answers.get(fate.answered) else { return false };
        fate.answered += 1;
        fate.state = match answer {
            OutcomeResolution::Ran => ReferenceState::Ended("succeeded"),
            OutcomeResolution::Retry => ReferenceState::Pending,
            OutcomeResolution::Fail => ReferenceState::Ended("failed"),
        };
        true
    }

    fn retry(&mut self) -> bool {
        let Some(from) = self.scenario.retries.get(self.retried) else { return false };
        if self.stage_statuses[self.stage] != "failed" {
            return false;
        }
        self.retried += 1;
        for stage in self.stage..self.steps.len() {
            self.stage_statuses[stage] = "pending";
            for fate in &mut self.steps[stage] {
                if fate.state != ReferenceState::Ended("succeeded") || *from == RetryStart::Start {
                    let ReferenceStep { executions, reported: spoken, answered, .. } = *fate;
                    *fate =
                        ReferenceStep { executions, reported: spoken, answered, ..ReferenceStep::default() };
                }
            }
        }
        self.is_over = false;
        self.enter_stage();
        true
    }

    fn end_attempt(&mut self, at: usize, ends: SimulatedEnd) {
        let is_doomed = !self.steps_in(ReferenceState::Ended("failed")).is_empty();
        let StepShape { retry, on_lost, .. } = self.scenario.shape.stages[self.stage].1[at].clone();
        let is_stopping = self.stage_statuses[self.stage] == "cancelling";
        let fate = self.step_mut(at);
        fate.false_starts = if ends == SimulatedEnd::NeverStarted { fate.false_starts + 1 } else { 0 };
        let goes_on = match ends {
            _ if is_stopping => None,
            SimulatedEnd::Succeeded => None,
            SimulatedEnd::Failed => {
                fate.failures += 1;
                Some(!is_doomed && retry.is_some_and(|(attempts, _)| fate.failures < attempts))
            }
            SimulatedEnd::NeverStarted => Some(fate.false_starts < NEVER_STARTED_MAX),
            SimulatedEnd::Stopped | SimulatedEnd::Interrupted | SimulatedEnd::Lost => {
                fate.losses += 1;
                Some(!is_doomed && on_lost == OnLost::Retry && fate.losses <= LOST_RETRIES_MAX)
            }
        };
        fate.state = match goes_on {
            _ if is_stopping => ReferenceState::Ended("cancelled"),
            None => ReferenceState::Ended("succeeded"),
            Some(true) => ReferenceState::Pending,
            Some(false) if ends.is_unknown() && on_lost == OnLost::Ask => ReferenceState::Waiting,
            Some(false) => ReferenceState::Ended("failed"),
        };
        self.update_status();
    }

    fn enter_stage(&mut self) {
        let is_shared = self.scenario.shape.stages[self.stage].0 == StageType::Stage;
        self.stage_statuses[self.stage] = if is_shared { "queued" } else { "running" };
        self.update_status();
    }

    /// Derives the status of the current stage and of later stages.
    fn update_status(&mut self) {
        if self.is_over || self.stage_statuses[self.stage] == "queued" {
            return;
        }
        if self.stage_statuses[self.stage] != "cancelling" {
            self.skip_due_steps();
        }
        let all = self.steps[self.stage].iter();
        let is_alive = !self.steps_in(ReferenceState::Running).is_empty();
        if self.stage_statuses[self.stage] == "cancelling" {
            if !is_alive {
                self.end_stage("cancelled", |_| "cancelled");
            }
        } else if !self.steps_in(ReferenceState::Ended("failed")).is_empty() {
            if !is_alive {
                let has_run = |fate: &ReferenceStep| fate.failures + fate.losses > 0;
                self.end_stage("failed", |fate| if has_run(fate) { "failed" } else { "skipped" });
            }
        } else if all.clone().all(|fate| matches!(fate.state, ReferenceState::Ended(_))) {
            self.stage_statuses[self.stage] = "succeeded";
            self.is_over = self.stage + 1 == self.stage_statuses.len();
            if !self.is_over {
                self.stage += 1;
                self.enter_stage();
            }
        } else {
            let is_parked = !self.steps_in(ReferenceState::Waiting).is_empty();
            let waits = is_parked && !is_alive && self.startable().is_empty();
            self.stage_statuses[self.stage] = if waits { "waiting" } else { "running" };
        }
    }

    /// Skips due steps whose condition is false, and fails due steps whose condition is invalid.
    fn skip_due_steps(&mut self) {
        let word = |at: usize| match self.scenario.shape.stages[self.stage].1[at].runs {
            RunCondition::Always | RunCondition::IfTrue => None,
            RunCondition::Never | RunCondition::IfFalse => Some((at, "skipped")),
            RunCondition::IfBroken => Some((at, "failed")),
        };
        if let Some((at, word)) = self.due_steps().into_iter().find_map(word) {
            self.step_mut(at).state = ReferenceState::Ended(word);
            self.skip_due_steps();
        }
    }

    fn end_stage(&mut self, word: &'static str, rest: impl Fn(&ReferenceStep) -> &'static str) {
        self.stage_statuses[self.stage] = word;
        self.is_over = true;
        for fate in &mut self.steps[self.stage] {
            if !matches!(fate.state, ReferenceState::Ended(_)) {
                fate.state = ReferenceState::Ended(rest(fate));
            }
        }
        for later in self.stage + 1..self.stage_statuses.len() {
            self.stage_statuses[later] = "skipped";
            for fate in &mut self.steps[later] {
                fate.state = ReferenceState::Ended("skipped");
            }
        }
    }

    fn startable(&self) -> Vec<usize> {
        let is_doomed = !self.steps_in(ReferenceState::Ended("failed")).is_empty();
        let may_start = matches!(self.stage_statuses[self.stage], "running" | "waiting") && !is_doomed;
        if may_start { self.due_steps() } else { Vec::new() }
    }

    /// Returns the steps that have not started and whose needs are met.
    fn due_steps(&self) -> Vec<usize> {
        let fates = &self.steps[self.stage];
        let passed =
            |need: &usize| matches!(fates[*need].state, ReferenceState::Ended("succeeded" | "skipped"));
        let todo = self.steps_in(ReferenceState::Pending).into_iter();
        todo.filter(|at| self.shape(*at).needs.iter().all(passed)).collect()
    }

    fn steps_in(&self, state: ReferenceState) -> Vec<usize> {
        let fates = &self.steps[self.stage];
        (0..fates.len()).filter(|at| fates[*at].state == state).collect()
    }

    fn shape(&self, at: usize) -> &StepShape {
        &self.scenario.shape.stages[self.stage].1[at]
    }

    fn step_mut(&mut self, at: usize) -> &mut ReferenceStep {
        &mut self.steps[self.stage][at]
    }

    /// Returns the position in the plan of the stage's first step.
    fn first_position(&self) -> usize {
        self.steps[..self.stage].iter().map(Vec::len).sum()
    }

    fn rank(&self, at: usize) -> u64 {
        self.scenario.ranks[self.first_position() + at]
    }

    fn ending(&self) -> ScenarioEnding {
        let stage = |at: usize| {
            let is_begun = matches!(self.stage_statuses[at], "running" | "waiting");
            let fates = self.steps[at].iter().enumerate();
            fates.map(move |(place, fate)| {
                let is_due = is_begun && self.startable().contains(&place);
                let word = match fate.state {
                    ReferenceState::Pending if is_due => "ready",
                    ReferenceState::Pending => "pending",
                    ReferenceState::Running => "running",
                    ReferenceState::Waiting => "waiting",
                    ReferenceState::Ended(word) => word,
                };
                (word, fate.executions)
            })
        };
        let run = match self.stage_statuses[self.stage] {
            "queued" => "running",
            word => word,
        };
        let steps = (0..self.stage_statuses.len()).flat_map(stage).collect();
        ScenarioEnding { run, stages: self.stage_statuses.clone(), steps }
    }
}
