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
pub fn expected(scenario: &Scenario) -> ScenarioEnding {
    let stages = scenario.shape.stages.iter();
    let mut book = Book {
        scenario,
        fates: stages.map(|(_, steps)| vec![Fate::default(); steps.len()]).collect(),
        words: vec!["pending"; scenario.shape.stages.len()],
        stage: 0,
        is_over: false,
        retried: 0,
    };
    book.arrive();
    for turn in 0..TURNS_MAX {
        if !book.take(turn) {
            break;
        }
    }
    book.ending()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReferenceState {
    #[default]
    Todo,
    Live,
    Parked,
    Over(&'static str),
}

#[derive(Debug, Clone, Default)]
struct Fate {
    state: ReferenceState,
    executions: u32,
    spoken: usize,
    answered: usize,
    failures: u32,
    losses: u32,
    false_starts: u32,
}

struct Book<'a> {
    scenario: &'a Scenario,
    fates: Vec<Vec<Fate>>,
    words: Vec<&'static str>,
    /// Index of the current stage.
    stage: usize,
    is_over: bool,
    retried: usize,
}

impl Book<'_> {
    fn take(&mut self, turn: u32) -> bool {
        if self.is_over {
            return self.retry();
        }
        if self.scenario.crashes.contains(&turn) {
            for at in self.of(ReferenceState::Live) {
                self.end(at, SimulatedEnd::Lost);
            }
            return true;
        }
        if self.scenario.cancel_at == Some(turn) {
            self.words[self.stage] = "cancelling";
        } else if self.words[self.stage] == "queued" {
            self.words[self.stage] = "running";
        } else if !self.work() {
            return false;
        }
        self.settle();
        true
    }

    /// Performs the next action; returns false if there is nothing to do.
    fn work(&mut self) -> bool {
        let live = self.of(ReferenceState::Live);
        let startable = self.startable().into_iter().min_by_key(|at| self.rank(*at));
        if let Some(at) = startable.filter(|_| live.len() < self.scenario.width) {
            let fate = self.fate(at);
            fate.state = ReferenceState::Live;
            fate.executions += 1;
        } else if let Some(at) = live.into_iter().max_by_key(|at| self.rank(*at)) {
            let script = &self.scenario.script[self.first() + at];
            let fate = self.fate(at);
            let ends = script.get(fate.spoken).copied().unwrap_or(SimulatedEnd::Succeeded);
            fate.spoken += 1;
            self.end(at, ends);
        } else {
            return self.answer();
        }
        true
    }

    fn answer(&mut self) -> bool {
        let Some(at) = self.of(ReferenceState::Parked).first().copied() else { return false };
        let answers = &self.scenario.answers[self.first() + at];
        let fate = self.fate(at);
        let Some(answer) = answers.get(fate.answered) else { return false };
        fate.answered += 1;
        fate.state = match answer {
            OutcomeResolution::Ran => ReferenceState::Over("succeeded"),
            OutcomeResolution::Retry => ReferenceState::Todo,
            OutcomeResolution::Fail => ReferenceState::Over("failed"),
        };
        true
    }

    fn retry(&mut self) -> bool {
        let Some(from) = self.scenario.retries.get(self.retried) else { return false };
        if self.words[self.stage] != "failed" {
            return false;
        }
        self.retried += 1;
        for stage in self.stage..self.fates.len() {
            self.words[stage] = "pending";
            for fate in &mut self.fates[stage] {
                if fate.state != ReferenceState::Over("succeeded") || *from == RetryStart::Start {
                    let Fate { executions, spoken, answered, .. } = *fate;
                    *fate = Fate { executions, spoken, answered, ..Fate::default() };
                }
            }
        }
        self.is_over = false;
        self.arrive();
        true
    }

    fn end(&mut self, at: usize, ends: SimulatedEnd) {
        let is_doomed = !self.of(ReferenceState::Over("failed")).is_empty();
        let StepShape { retry, on_lost, .. } = self.scenario.shape.stages[self.stage].1[at].clone();
        let is_stopping = self.words[self.stage] == "cancelling";
        let fate = self.fate(at);
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
            _ if is_stopping => ReferenceState::Over("cancelled"),
            None => ReferenceState::Over("succeeded"),
            Some(true) => ReferenceState::Todo,
            Some(false) if ends.is_unknown() && on_lost == OnLost::Ask => ReferenceState::Parked,
            Some(false) => ReferenceState::Over("failed"),
        };
        self.settle();
    }

    fn arrive(&mut self) {
        let is_shared = self.scenario.shape.stages[self.stage].0 == StageType::Stage;
        self.words[self.stage] = if is_shared { "queued" } else { "running" };
        self.settle();
    }

    /// Derives the status of the current stage and of later stages.
    fn settle(&mut self) {
        if self.is_over || self.words[self.stage] == "queued" {
            return;
        }
        if self.words[self.stage] != "cancelling" {
            self.leave_out();
        }
        let all = self.fates[self.stage].iter();
        let is_alive = !self.of(ReferenceState::Live).is_empty();
        if self.words[self.stage] == "cancelling" {
            if !is_alive {
                self.close("cancelled", |_| "cancelled");
            }
        } else if !self.of(ReferenceState::Over("failed")).is_empty() {
            if !is_alive {
                let has_run = |fate: &Fate| fate.failures + fate.losses > 0;
                self.close("failed", |fate| if has_run(fate) { "failed" } else { "skipped" });
            }
        } else if all.clone().all(|fate| matches!(fate.state, ReferenceState::Over(_))) {
            self.words[self.stage] = "succeeded";
            self.is_over = self.stage + 1 == self.words.len();
            if !self.is_over {
                self.stage += 1;
                self.arrive();
            }
        } else {
            let is_parked = !self.of(ReferenceState::Parked).is_empty();
            let waits = is_parked && !is_alive && self.startable().is_empty();
            self.words[self.stage] = if waits { "waiting" } else { "running" };
        }
    }

    /// Skips due steps whose condition is false, and fails due steps whose condition is invalid.
    fn leave_out(&mut self) {
        let word = |at: usize| match self.scenario.shape.stages[self.stage].1[at].runs {
            RunCondition::Always | RunCondition::IfTrue => None,
            RunCondition::Never | RunCondition::IfFalse => Some((at, "skipped")),
            RunCondition::IfBroken => Some((at, "failed")),
        };
        if let Some((at, word)) = self.due().into_iter().find_map(word) {
            self.fate(at).state = ReferenceState::Over(word);
            self.leave_out();
        }
    }

    fn close(&mut self, word: &'static str, rest: impl Fn(&Fate) -> &'static str) {
        self.words[self.stage] = word;
        self.is_over = true;
        for fate in &mut self.fates[self.stage] {
            if !matches!(fate.state, ReferenceState::Over(_)) {
                fate.state = ReferenceState::Over(rest(fate));
            }
        }
        for later in self.stage + 1..self.words.len() {
            self.words[later] = "skipped";
            for fate in &mut self.fates[later] {
                fate.state = ReferenceState::Over("skipped");
            }
        }
    }

    fn startable(&self) -> Vec<usize> {
        let is_doomed = !self.of(ReferenceState::Over("failed")).is_empty();
        let may_start = matches!(self.words[self.stage], "running" | "waiting") && !is_doomed;
        if may_start { self.due() } else { Vec::new() }
    }

    /// Returns the steps that have not started and whose needs are met.
    fn due(&self) -> Vec<usize> {
        let fates = &self.fates[self.stage];
        let passed =
            |need: &usize| matches!(fates[*need].state, ReferenceState::Over("succeeded" | "skipped"));
        let todo = self.of(ReferenceState::Todo).into_iter();
        todo.filter(|at| self.shape(*at).needs.iter().all(passed)).collect()
    }

    fn of(&self, state: ReferenceState) -> Vec<usize> {
        let fates = &self.fates[self.stage];
        (0..fates.len()).filter(|at| fates[*at].state == state).collect()
    }

    fn shape(&self, at: usize) -> &StepShape {
        &self.scenario.shape.stages[self.stage].1[at]
    }

    fn fate(&mut self, at: usize) -> &mut Fate {
        &mut self.fates[self.stage][at]
    }

    /// Returns the position in the plan of the stage's first step.
    fn first(&self) -> usize {
        self.fates[..self.stage].iter().map(Vec::len).sum()
    }

    fn rank(&self, at: usize) -> u64 {
        self.scenario.ranks[self.first() + at]
    }

    fn ending(&self) -> ScenarioEnding {
        let stage = |at: usize| {
            let is_begun = matches!(self.words[at], "running" | "waiting");
            let fates = self.fates[at].iter().enumerate();
            fates.map(move |(place, fate)| {
                let is_due = is_begun && self.startable().contains(&place);
                let word = match fate.state {
                    ReferenceState::Todo if is_due => "ready",
                    ReferenceState::Todo => "pending",
                    ReferenceState::Live => "running",
                    ReferenceState::Parked => "waiting",
                    ReferenceState::Over(word) => word,
                };
                (word, fate.executions)
            })
        };
        let run = match self.words[self.stage] {
            "queued" => "running",
            word => word,
        };
        let steps = (0..self.words.len()).flat_map(stage).collect();
        ScenarioEnding { run, stages: self.words.clone(), steps }
    }
}
