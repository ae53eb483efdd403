//! Several runs of one pipeline compete for its stages: only one run at a time is in a stage, and the newest waiting
//! run enters first.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_core::decision::RuleDecision;
use berth_core::deployment::run::enter::{StageContender, StageEntry, WaitingDeployment, decide_entry};
use berth_core::deployment::run::{OutcomeResolution, RunStatus, StageRunStatus, StageType, StepRunStatus};
use berth_core::deployment::{
    Deployment, DeploymentState, StagesDeployment, StagesTarget, StartTrigger, stages,
};
use berth_core::event::Actor;
use berth_core::name::CommitId;

use super::check::{RunCheckResult, ensure};
use super::command::SimulatedEnd;
use super::plans::{PlanShape, StepShape, shape};
use super::report::FailedRunSequence;
use super::simulation::{RunRequest, RunSimulation, START};
use crate::random::SeededRandom;

const RUNS_MAX: usize = 6;
const TURNS: u64 = 80;

struct QueuedRun {
    simulation: RunSimulation,
    deployment: StagesDeployment,
}

struct StageQueue {
    shape: PlanShape,
    runs: Vec<QueuedRun>,
    /// The trace, if one is recorded.
    trace_text: Option<String>,
}

/// Lets runs arrive, work and fail, then drives all of them to their end.
pub fn check(seed: u64) -> Result<(), Box<FailedRunSequence>> {
    run(seed, None).0.map_err(|violation| Box::new(FailedRunSequence { violation, trace: trace(seed) }))
}

/// Returns a trace up to the first violation.
pub fn trace(seed: u64) -> String {
    run(seed, Some(String::new())).1
}

fn run(seed: u64, story: Option<String>) -> (RunCheckResult, String) {
    let mut chance = SeededRandom::from_seed(seed);
    let mut line = StageQueue { shape: shared_shape(&mut chance), runs: Vec::new(), trace_text: story };
    let checked = line.play(&mut chance).and_then(|()| line.conclude());
    let story = line.trace_text.unwrap_or_default();
    (checked, format!("{}{story}", line.shape))
}

/// Returns a plan whose stages are mostly exclusive.
fn shared_shape(chance: &mut SeededRandom) -> PlanShape {
    let mut shape = shape(chance);
    for (kind, steps) in &mut shape.stages {
        if chance.percent(80) {
            *kind = StageType::Stage;
        }
        steps.truncate(3);
        let count = steps.len();
        steps.iter_mut().for_each(|StepShape { needs, .. }| needs.retain(|need| *need < count));
    }
    shape
}

impl StageQueue {
    fn play(&mut self, chance: &mut SeededRandom) -> RunCheckResult {
        for _ in 0..TURNS {
            match chance.below(10) {
                0 if self.runs.len() < RUNS_MAX => self.add_run()?,
                0..3 => {
                    let first = usize::try_from(chance.below(RUNS_MAX as u64)).unwrap_or(0);
                    self.sweep(first)?;
                }
                _ if self.runs.is_empty() => self.add_run()?,
                _ => {
                    let place = chance.below(self.runs.len() as u64);
                    let place = usize::try_from(place).unwrap_or(0);
                    if let Some(asked) = next_request(&mut self.runs[place].simulation, chance) {
                        self.execute_request(place, &asked)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn trace_line(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.trace_text {
            let _ = writeln!(story, "     {}", line());
        }
    }

    fn add_run(&mut self) -> RunCheckResult {
        let number = u8::try_from(self.runs.len() + 1).unwrap_or(u8::MAX);
        let simulation = RunSimulation::begin_as(number, &self.shape, 0, false)?;
        let queued = stages::start(Deployment {
            id: simulation.run.deployment,
            number: i64::from(number),
            pipeline: simulation.run.pipeline,
            definition_hash: String::new(),
            commit: CommitId::parse("c1").unwrap_or_else(|wrong| unreachable!("{wrong}")),
            resolved_commit: None,
            reason: None,
            requested_by: Actor::system(),
            status: DeploymentState::Queued,
            created_at: START,
            started_at: None,
            finished_at: None,
            target: StagesTarget { trigger: StartTrigger::Api, retried_by: BTreeSet::new(), bypass: None },
        });
        let begun = stages::begin(&queued.answer, None, START).answer;
        self.trace_line(|| format!("{number} begins"));
        self.runs.push(QueuedRun { simulation, deployment: begun });
        let place = self.runs.len() - 1;
        self.update_deployment(place)
    }

    /// Lets runs that wait for a stage try to enter it.
    fn sweep(&mut self, first: usize) -> RunCheckResult {
        let count = self.runs.len();
        for place in (0..count).map(|place| (place + first) % count) {
            let queued = self.runs[place].simulation.run.queued_for().map(|(stage, _)| stage);
            let Some(stage) = queued else { continue };
            let number = self.runs[place].deployment.number;
            let waits = WaitingDeployment { number, is_protected: false, has_bypass: false };
            let said = decide_entry(waits, &self.contenders(place, stage));
            self.trace_line(|| format!("{number} wants into stage {stage}: {said:?}"));
            match said {
                StageEntry::Free => self.execute_request(place, &RunRequest::Enter)?,
                StageEntry::Behind(other) => {
                    let mut others = self.runs.iter().filter(|it| it.deployment.id == other);
                    let is_inside = others.any(|it| it.simulation.run.stages[stage].status.is_open());
                    ensure!(is_inside, "one at a time", "{number} waits for one that is not in the stage");
                }
                StageEntry::SupersededBy(other) => self.supersede(place, stage, other)?,
            }
        }
        Ok(())
    }

    fn supersede(&mut self, place: usize, stage: usize, by: berth_core::id::DeploymentId) -> RunCheckResult {
        let number = self.runs[place].deployment.number;
        let newer = self.runs.iter().find(|it| it.deployment.id == by);
        let waits = |it: &QueuedRun| it.simulation.run.stages[stage].status == StageRunStatus::Queued;
        let is_right = newer.is_some_and(|it| it.deployment.number > number && waits(it));
        ensure!(is_right, "superseded", "{number} by one that is not newer or does not wait");
        ensure!(waits(&self.runs[place]), "superseded", "{number}, which had begun in the stage");
        let QueuedRun { simulation, deployment } = &mut self.runs[place];
        *deployment = into_deployment(stages::supersede(deployment, by, simulation.now));
        self.execute_request(place, &RunRequest::Superseded)?;
        let QueuedRun { simulation, deployment } = &self.runs[place];
        let is_superseded = deployment.status == DeploymentState::Superseded { by };
        ensure!(is_superseded, "superseded", "{number} is {:?}", deployment.status);
        ensure!(simulation.run.status().is_final(), "superseded", "{number} goes on");
        Ok(())
    }

    fn contenders(&self, place: usize, stage: usize) -> Vec<StageContender> {
        let others = self.runs.iter().enumerate().filter(|(other, _)| *other != place);
        let others = others.filter(|(_, it)| !it.simulation.run.status().is_final());
        let contender = |it: &QueuedRun| StageContender {
            deployment: it.deployment.id,
            number: it.deployment.number,
            status: it.simulation.run.stages[stage].status,
            is_rollback: false,
        };
        others.map(|(_, it)| contender(it)).collect()
    }

    fn execute_request(&mut self, place: usize, asked: &RunRequest) -> RunCheckResult {
        let number = self.runs[place].deployment.number;
        let told = self.runs[place].simulation.execute_request(asked)?;
        self.trace_line(|| format!("{number}: {asked:?}\n       {told}"));
        self.update_deployment(place)?;
        self.check_stages()
    }

    /// Updates the deployment from its run. The only final status that may still change is "failed", and only by a
    /// retry.
    fn update_deployment(&mut self, place: usize) -> RunCheckResult {
        let QueuedRun { simulation, deployment } = &mut self.runs[place];
        let before = deployment.clone();
        let decision = stages::follow_run(deployment, simulation.run.status(), simulation.now);
        let is_told = decision.events.len() <= decision.changes.len();
        ensure!(is_told, "events", "an event without a change of the deployment");
        *deployment = into_deployment(decision);
        let may_change = !before.status.is_final() || matches!(before.status, DeploymentState::Failed(_));
        ensure!(
            may_change || *deployment == before,
            "E1",
            "{:?} became {:?}",
            before.status,
            deployment.status
        );
        let is_superseded = matches!(deployment.status, DeploymentState::Superseded { .. });
        let agrees = deployment.status.as_str() == status_word(&simulation.run.status());
        ensure!(is_superseded || agrees, "E1", "the head is {:?}", deployment.status);
        let is_over = deployment.finished_at.is_some();
        ensure!(is_over == deployment.status.is_final(), "E1", "an end without a time, or the reverse");
        Ok(())
    }

    fn check_stages(&self) -> RunCheckResult {
        for (stage, (kind, _)) in self.shape.stages.iter().enumerate() {
            let inside = self.runs.iter().filter(|it| it.simulation.run.stages[stage].status.is_open());
            let inside: Vec<i64> = inside.map(|it| it.deployment.number).collect();
            let is_fine = inside.len() <= 1 || *kind != StageType::Stage;
            ensure!(is_fine, "one at a time", "{inside:?} are in stage {stage}");
        }
        Ok(())
    }

    /// Checks that, without further faults, every run ends and the newest run is never superseded.
    fn conclude(&mut self) -> RunCheckResult {
        for _ in 0..1_000 {
            self.sweep(0)?;
            let mut has_moved = false;
            for place in 0..self.runs.len() {
                if let Some(asked) = self.runs[place].simulation.next_action() {
                    self.execute_request(place, &asked)?;
                    has_moved = true;
                }
            }
            let is_queued = |it: &QueuedRun| it.simulation.run.queued_for().is_some();
            if !has_moved && !self.runs.iter().any(is_queued) {
                break;
            }
        }
        for it in &self.runs {
            let (number, status) = (it.deployment.number, it.simulation.run.status());
            ensure!(status.is_final(), "E4", "{number} is {status:?} for ever");
        }
        let newest = self.runs.last().map(|it| &it.deployment.status);
        let is_left_out = matches!(newest, Some(DeploymentState::Superseded { .. }));
        ensure!(!is_left_out, "superseded", "the newest of all");
        Ok(())
    }
}

fn next_request(simulation: &mut RunSimulation, chance: &mut SeededRandom) -> Option<RunRequest> {
    match chance.below(20) {
        0 => Some(RunRequest::Cancel),
        1..3 => {
            let failed =
                simulation.run.stages.iter().position(|stage| stage.status == StageRunStatus::Failed);
            failed.map(|stage| RunRequest::Retry {
                stage,
                from: berth_core::deployment::run::retry::RetryStart::Failed,
            })
        }
        3..7 => {
            let mut steps = simulation.run.steps.iter().enumerate();
            let (at, nonce) = steps.find_map(|(at, step)| Some((at, step.live.as_ref()?.nonce.clone())))?;
            Some(RunRequest::Report { at, nonce, ends: chance.pick(&SimulatedEnd::ALL) })
        }
        7 => {
            let mut steps = simulation.run.steps.iter();
            let at = steps.position(|step| step.status == StepRunStatus::Waiting)?;
            let resolution = chance.pick(&[OutcomeResolution::Retry, OutcomeResolution::Fail]);
            Some(RunRequest::Resolve { at, resolution })
        }
        // Sometimes a run is left waiting for a person's answer.
        _ if matches!(simulation.run.status(), RunStatus::Waiting) => None,
        _ => simulation.next_action(),
    }
}

fn into_deployment(decision: RuleDecision<StagesDeployment>) -> StagesDeployment {
    decision.answer
}

const fn status_word(status: &RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Waiting => "waiting",
        RunStatus::Cancelling(_) => "cancelling",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed(_) => "failed",
        RunStatus::Cancelled(_) => "cancelled",
    }
}
