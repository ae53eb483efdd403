//! Bugs that random sequences found in the rules of a run, each as a short test.

use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{OutcomeResolution, StageRunStatus, StageType, StepRunStatus};
use berth_core::event::EventKind;
use berth_core::step::OnLost;
use berth_sim::runs::{
    PlanShape, RunAnswer, RunCondition, RunDecision, RunRequest, RunSimulation, SimulatedEnd, StepShape,
};

const PLAIN: StepShape =
    StepShape { needs: Vec::new(), runs: RunCondition::Always, retry: None, on_lost: OnLost::Fail };

/// A run with parallel steps in one stage that needs no approval.
struct SimulatedRun(RunSimulation);

impl SimulatedRun {
    fn with_steps(steps: Vec<StepShape>) -> Self {
        Self::with_stages(vec![steps])
    }

    fn with_stages(stages: Vec<Vec<StepShape>>) -> Self {
        Self::with_typed_stages(stages.into_iter().map(|steps| (StageType::Environment, steps)).collect())
    }

    fn with_typed_stages(stages: Vec<(StageType, Vec<StepShape>)>) -> Self {
        Self(
            RunSimulation::begin(&PlanShape { stages }, 0, false)
                .unwrap_or_else(|violation| panic!("{violation}")),
        )
    }

    fn execute_request(&mut self, asked: &RunRequest) -> RunDecision {
        self.0.execute_request(asked).unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn grant(&mut self, at: usize) {
        let nonce = self.0.next_nonce();
        self.0.now = self.0.now.plus_seconds(3_600);
        let told = self.execute_request(&RunRequest::Grant { at, nonce });
        assert!(matches!(told.answer, RunAnswer::Granted(_)), "{told}");
    }

    fn end(&mut self, at: usize, ends: SimulatedEnd) -> Vec<EventKind> {
        let nonce = self.0.run.steps[at].live.as_ref().expect("it runs").nonce.clone();
        let told = self.execute_request(&RunRequest::Report { at, nonce, ends });
        told.events.iter().map(|event| event.kind).collect()
    }

    fn execute(&mut self, at: usize, ends: SimulatedEnd) {
        self.grant(at);
        self.end(at, ends);
    }

    fn step_status(&self, at: usize) -> StepRunStatus {
        self.0.run.steps[at].status
    }

    fn stage_status(&self, at: usize) -> StageRunStatus {
        self.0.run.stages[at].status
    }
}

#[test]
fn step_waiting_for_retry_fails_with_its_stage() {
    let mut story = SimulatedRun::with_steps(vec![StepShape { retry: Some((3, 60)), ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.step_status(0), StepRunStatus::Ready);
    story.end(1, SimulatedEnd::Failed);
    assert_eq!(
        (story.stage_status(0), story.step_status(0)),
        (StageRunStatus::Failed, StepRunStatus::Failed)
    );
}

#[test]
fn unknown_step_is_not_skipped_when_its_stage_fails() {
    let mut story = SimulatedRun::with_steps(vec![StepShape { on_lost: OnLost::Ask, ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Lost);
    story.end(1, SimulatedEnd::Failed);
    assert_eq!(
        (story.stage_status(0), story.step_status(0)),
        (StageRunStatus::Failed, StepRunStatus::Failed)
    );
    let failure = story.0.run.steps[0].failure.as_ref().expect("it says why");
    assert_eq!(failure.cause.as_str(), "lost");
}

#[test]
fn no_retry_event_once_stage_cannot_succeed() {
    let lost = StepShape { on_lost: OnLost::Retry, ..PLAIN };
    let mut story = SimulatedRun::with_steps(vec![PLAIN, StepShape { retry: Some((3, 0)), ..PLAIN }, lost]);
    story.grant(1);
    story.grant(2);
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.end(1, SimulatedEnd::Failed), [EventKind::StepFailed]);
    assert_eq!(story.end(2, SimulatedEnd::Lost), [EventKind::StepFailed, EventKind::StageFailed]);
}

#[test]
fn failures_do_not_count_as_lost_attempts() {
    let patient = StepShape { retry: Some((9, 0)), on_lost: OnLost::Retry, ..PLAIN };
    let mut story = SimulatedRun::with_steps(vec![patient]);
    for _ in 0..5 {
        story.execute(0, SimulatedEnd::Failed);
    }
    story.execute(0, SimulatedEnd::Lost);
    assert_eq!(story.step_status(0), StepRunStatus::Ready);
}

#[test]
fn retried_stage_resets_lost_count() {
    let mut story = SimulatedRun::with_steps(vec![StepShape { on_lost: OnLost::Retry, ..PLAIN }]);
    for _ in 0..4 {
        story.execute(0, SimulatedEnd::Lost);
    }
    assert_eq!(story.stage_status(0), StageRunStatus::Failed);
    story.execute_request(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    story.execute(0, SimulatedEnd::Lost);
    assert_eq!(story.step_status(0), StepRunStatus::Ready);
}

#[test]
fn only_consecutive_failed_starts_are_limited() {
    let mut story = SimulatedRun::with_steps(vec![StepShape { retry: Some((9, 0)), ..PLAIN }]);
    for _ in 0..9 {
        story.execute(0, SimulatedEnd::NeverStarted);
    }
    story.execute(0, SimulatedEnd::Failed);
    story.execute(0, SimulatedEnd::NeverStarted);
    assert_eq!(story.step_status(0), StepRunStatus::Ready);
    for _ in 0..9 {
        story.execute(0, SimulatedEnd::NeverStarted);
    }
    assert_eq!(story.step_status(0), StepRunStatus::Failed);
}

#[test]
fn cancelled_stage_stays_cancelled_when_earlier_stage_is_retried() {
    let mut story = SimulatedRun::with_stages(vec![vec![PLAIN], vec![PLAIN], vec![PLAIN], vec![PLAIN]]);
    story.grant(0);
    story.execute_request(&RunRequest::CancelStage { stage: 2 });
    story.end(0, SimulatedEnd::Failed);
    story.execute_request(&RunRequest::Retry { stage: 0, from: RetryStart::Start });
    assert_eq!(
        (story.stage_status(1), story.stage_status(2)),
        (StageRunStatus::Pending, StageRunStatus::Cancelled)
    );
    story.execute(0, SimulatedEnd::Succeeded);
    story.execute(1, SimulatedEnd::Succeeded);
    assert_eq!(
        (story.stage_status(2), story.stage_status(3)),
        (StageRunStatus::Cancelled, StageRunStatus::Skipped)
    );
    assert!(matches!(story.0.run.status(), berth_core::deployment::run::RunStatus::Cancelled(_)));
}

#[test]
fn step_in_cancelled_stage_cannot_be_resolved() {
    let mut story = SimulatedRun::with_steps(vec![StepShape { on_lost: OnLost::Ask, ..PLAIN }, PLAIN]);
    story.grant(1);
    story.execute(0, SimulatedEnd::Lost);
    story.execute_request(&RunRequest::Cancel);
    let told = story.execute_request(&RunRequest::Resolve { at: 0, resolution: OutcomeResolution::Ran });
    assert!(matches!(told.answer, RunAnswer::Refused(_)), "{told}");
    story.end(1, SimulatedEnd::Stopped);
    assert_eq!(story.step_status(0), StepRunStatus::Cancelled);
}

#[test]
fn step_above_attempt_limit_fails() {
    let patient = StepShape { retry: Some((9, 0)), ..PLAIN };
    let shape = PlanShape { stages: vec![(StageType::Environment, vec![patient])] };
    let mut story =
        SimulatedRun(RunSimulation::begin(&shape, 999, false).unwrap_or_else(|it| panic!("{it}")));
    story.execute(0, SimulatedEnd::Failed);
    assert_eq!(story.stage_status(0), StageRunStatus::Failed);
    story.execute_request(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    assert_eq!(story.stage_status(0), StageRunStatus::Failed);
}

#[test]
fn superseded_run_keeps_finished_stages() {
    let stage = |steps| (StageType::Stage, steps);
    let mut story = SimulatedRun::with_typed_stages(vec![
        stage(vec![PLAIN, PLAIN]),
        stage(vec![PLAIN]),
        stage(vec![PLAIN]),
    ]);
    story.execute_request(&RunRequest::Enter);
    story.execute(0, SimulatedEnd::Succeeded);
    story.execute_request(&RunRequest::CancelStage { stage: 2 });
    story.execute(1, SimulatedEnd::Failed);
    story.execute_request(&RunRequest::Retry { stage: 0, from: RetryStart::Failed });
    story.execute_request(&RunRequest::Superseded);
    assert_eq!(
        (story.step_status(0), story.step_status(1)),
        (StepRunStatus::Succeeded, StepRunStatus::Skipped)
    );
    assert_eq!(
        (story.stage_status(0), story.stage_status(1)),
        (StageRunStatus::Skipped, StageRunStatus::Skipped)
    );
    assert_eq!(story.stage_status(2), StageRunStatus::Cancelled);
}
