//! Bugs that random sequences found in the rules of a run, each as a short test.

use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{OutcomeResolution, StageRunStatus, StageType, StepRunStatus};
use berth_core::event::EventKind;
use berth_core::step::OnLost;
use berth_sim::runs::{
    PlanShape, RunAnswer, RunCondition, RunDecision, RunRequest, Scene, SimulatedEnd, StepShape,
};

const PLAIN: StepShape =
    StepShape { needs: Vec::new(), runs: RunCondition::Always, retry: None, on_lost: OnLost::Fail };

/// A run with parallel steps in one stage that needs no approval.
struct Story(Scene);

impl Story {
    fn of(steps: Vec<StepShape>) -> Self {
        Self::through(vec![steps])
    }

    fn through(stages: Vec<Vec<StepShape>>) -> Self {
        Self::with(stages.into_iter().map(|steps| (StageType::Environment, steps)).collect())
    }

    fn with(stages: Vec<(StageType, Vec<StepShape>)>) -> Self {
        Self(Scene::begin(&PlanShape { stages }, 0, false).unwrap_or_else(|violation| panic!("{violation}")))
    }

    fn ask(&mut self, asked: &RunRequest) -> RunDecision {
        self.0.ask(asked).unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn grant(&mut self, at: usize) {
        let nonce = self.0.fresh();
        self.0.now = self.0.now.plus_seconds(3_600);
        let told = self.ask(&RunRequest::Grant { at, nonce });
        assert!(matches!(told.answer, RunAnswer::Granted(_)), "{told}");
    }

    fn end(&mut self, at: usize, ends: SimulatedEnd) -> Vec<EventKind> {
        let nonce = self.0.run.steps[at].live.as_ref().expect("it runs").nonce.clone();
        let told = self.ask(&RunRequest::Report { at, nonce, ends });
        told.events.iter().map(|event| event.kind).collect()
    }

    fn execute(&mut self, at: usize, ends: SimulatedEnd) {
        self.grant(at);
        self.end(at, ends);
    }

    fn step(&self, at: usize) -> StepRunStatus {
        self.0.run.steps[at].status
    }

    fn stage(&self, at: usize) -> StageRunStatus {
        self.0.run.stages[at].status
    }
}

#[test]
fn step_waiting_for_retry_fails_with_its_stage() {
    let mut story = Story::of(vec![StepShape { retry: Some((3, 60)), ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.step(0), StepRunStatus::Ready);
    story.end(1, SimulatedEnd::Failed);
    assert_eq!((story.stage(0), story.step(0)), (StageRunStatus::Failed, StepRunStatus::Failed));
}

#[test]
fn unknown_step_is_not_skipped_when_its_stage_fails() {
    let mut story = Story::of(vec![StepShape { on_lost: OnLost::Ask, ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Lost);
    story.end(1, SimulatedEnd::Failed);
    assert_eq!((story.stage(0), story.step(0)), (StageRunStatus::Failed, StepRunStatus::Failed));
    let failure = story.0.run.steps[0].failure.as_ref().expect("it says why");
    assert_eq!(failure.cause.as_str(), "lost");
}

#[test]
fn no_retry_event_once_stage_cannot_succeed() {
    let lost = StepShape { on_lost: OnLost::Retry, ..PLAIN };
    let mut story = Story::of(vec![PLAIN, StepShape { retry: Some((3, 0)), ..PLAIN }, lost]);
    story.grant(1);
    story.grant(2);
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.end(1, SimulatedEnd::Failed), [EventKind::StepFailed]);
    assert_eq!(story.end(2, SimulatedEnd::Lost), [EventKind::StepFailed, EventKind::StageFailed]);
}

#[test]
fn failures_do_not_count_as_lost_attempts() {
    let patient = StepShape { retry: Some((9, 0)), on_lost: OnLost::Retry, ..PLAIN };
    let mut story = Story::of(vec![patient]);
    for _ in 0..5 {
        story.execute(0, SimulatedEnd::Failed);
    }
    story.execute(0, SimulatedEnd::Lost);
    assert_eq!(story.step(0), StepRunStatus::Ready);
}

#[test]
fn retried_stage_resets_lost_count() {
    let mut story = Story::of(vec![StepShape { on_lost: OnLost::Retry, ..PLAIN }]);
    for _ in 0..4 {
        story.execute(0, SimulatedEnd::Lost);
    }
    assert_eq!(story.stage(0), StageRunStatus::Failed);
    story.ask(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    story.execute(0, SimulatedEnd::Lost);
    assert_eq!(story.step(0), StepRunStatus::Ready);
}

#[test]
fn only_consecutive_failed_starts_are_limited() {
    let mut story = Story::of(vec![StepShape { retry: Some((9, 0)), ..PLAIN }]);
    for _ in 0..9 {
        story.execute(0, SimulatedEnd::NeverStarted);
    }
    story.execute(0, SimulatedEnd::Failed);
    story.execute(0, SimulatedEnd::NeverStarted);
    assert_eq!(story.step(0), StepRunStatus::Ready);
    for _ in 0..9 {
        story.execute(0, SimulatedEnd::NeverStarted);
    }
    assert_eq!(story.step(0), StepRunStatus::Failed);
}

#[test]
fn cancelled_stage_stays_cancelled_when_earlier_stage_is_retried() {
    let mut story = Story::through(vec![vec![PLAIN], vec![PLAIN], vec![PLAIN], vec![PLAIN]]);
    story.grant(0);
    story.ask(&RunRequest::CancelStage { stage: 2 });
    story.end(0, SimulatedEnd::Failed);
    story.ask(&RunRequest::Retry { stage: 0, from: RetryStart::Start });
    assert_eq!((story.stage(1), story.stage(2)), (StageRunStatus::Pending, StageRunStatus::Cancelled));
    story.execute(0, SimulatedEnd::Succeeded);
    story.execute(1, SimulatedEnd::Succeeded);
    assert_eq!((story.stage(2), story.stage(3)), (StageRunStatus::Cancelled, StageRunStatus::Skipped));
    assert!(matches!(story.0.run.status(), berth_core::deployment::run::RunStatus::Cancelled(_)));
}

#[test]
fn step_in_cancelled_stage_cannot_be_resolved() {
    let mut story = Story::of(vec![StepShape { on_lost: OnLost::Ask, ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Lost);
    story.ask(&RunRequest::Cancel);
    let told = story.ask(&RunRequest::Resolve { at: 0, resolution: OutcomeResolution::Ran });
    assert!(matches!(told.answer, RunAnswer::Refused(_)), "{told}");
    story.end(1, SimulatedEnd::Stopped);
    assert_eq!(story.step(0), StepRunStatus::Cancelled);
}

#[test]
fn step_above_attempt_limit_fails() {
    let patient = StepShape { retry: Some((9, 0)), ..PLAIN };
    let shape = PlanShape { stages: vec![(StageType::Environment, vec![patient])] };
    let mut story = Story(Scene::begin(&shape, 999, false).unwrap_or_else(|it| panic!("{it}")));
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.stage(0), StageRunStatus::Failed);
    story.ask(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    assert_eq!(story.stage(0), StageRunStatus::Failed);
}

#[test]
fn superseded_run_keeps_finished_stages() {
    let stage = |steps| (StageType::Stage, steps);
    let mut story = Story::with(vec![stage(vec![PLAIN, PLAIN]), stage(vec![PLAIN]), stage(vec![PLAIN])]);
    story.ask(&RunRequest::Enter);
    story.execute(0, SimulatedEnd::Succeeded);
    story.ask(&RunRequest::CancelStage { stage: 2 });
    story.execute(1, SimulatedEnd::Failed);
    story.ask(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    story.ask(&RunRequest::Overtaken);
    assert_eq!((story.step(0), story.step(1)), (StepRunStatus::Succeeded, StepRunStatus::Skipped));
    assert_eq!((story.stage(0), story.stage(1)), (StageRunStatus::Skipped, StageRunStatus::Skipped));
    assert_eq!(story.stage(2), StageRunStatus::Cancelled);
}
