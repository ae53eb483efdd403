//! Tests runs that wait for a window, an approval or a soak.

use berth_core::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::run::begin::{BeginRunCommand, begin};
use berth_core::deployment::run::enter::{
    StageContender, StageEntry, WaitingDeployment, decide_entry, enter_queued_stage, fail_entry,
};
use berth_core::deployment::run::grant::{GrantStep, grant};
use berth_core::deployment::run::retry::{RetryStart, retry};
use berth_core::deployment::run::{
    AttemptOutcome, OutcomeResolution, Plan, Run, RunStatus, StageRunStatus, StepRunStatus, approval_content,
    gated_steps, report, resolve,
};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::environment::DecisionContext;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::time::Timestamp;

use crate::planning::make_plan;

/// A Monday at 08:00 UTC.
const OPEN: Timestamp = Timestamp::from_micros(1_794_816_000_000_000);

struct RunFixture {
    plan: Plan,
    run: Run,
    now: Timestamp,
}

impl RunFixture {
    fn new(lines: &str) -> Self {
        let plan = make_plan(lines, "all").expect("a plan");
        let id = DeploymentId::from_parts(OPEN, [1; 10]);
        let cmd =
            BeginRunCommand { deployment: id, pipeline: PipelineId::from_parts(OPEN, [2; 10]), built: None };
        let decision =
            begin(&plan, cmd, &DecisionContext { now: OPEN, epoch: 1, lost_s: 45, entropy: [3; 10] });
        let run = changed_run(&decision).expect("a run");
        Self { plan, run, now: OPEN }
    }

    fn apply<A>(&mut self, decision: RuleDecision<A>) -> A {
        if let Some(run) = changed_run(&decision) {
            assert!(!decision.events.is_empty() || run.queued_for().is_some(), "a change is told");
            self.run = run;
        }
        decision.answer
    }

    fn enter_stage(&mut self) {
        let decision = enter_queued_stage(&self.run, &self.plan, self.now);
        self.apply(decision);
    }

    fn grant(&mut self, at: usize, passes_gates: bool) -> Result<(), CommandRefusal> {
        let step = self.run.steps[at].id;
        let cmd =
            GrantStep { step, runner: "r".into(), nonce: format!("n{at}"), lost_ms: None, passes_gates };
        let decision = grant(&self.run, &self.plan, &cmd, self.now)?;
        self.apply(decision);
        Ok(())
    }

    /// Grants the step and reports that it succeeded with this output.
    fn run_step(&mut self, at: usize, output: &str) {
        self.grant(at, true).expect("granted");
        let outputs = [("v".to_owned(), output.to_owned())].into();
        let outcome = AttemptOutcome::Succeeded { outputs, artifacts: std::collections::BTreeMap::new() };
        let step = self.run.steps[at].id;
        let decision = report::report(&self.run, &self.plan, step, &format!("n{at}"), outcome, self.now);
        self.apply(decision);
    }

    fn statuses(&self) -> Vec<StepRunStatus> {
        self.run.steps.iter().map(|step| step.status).collect()
    }
}

fn changed_run<A>(decision: &RuleDecision<A>) -> Option<Run> {
    decision.changes.iter().find_map(|change| match change {
        RecordChange::Put(DomainRecord::Run(it)) => Some(it.run.clone()),
        RecordChange::Put(_) => None,
    })
}

const WINDOW: &str = "stages: [{ name: a, window: { timezone: UTC, hours: \"08:00-09:00\" } }]
steps: [{ name: One, type: dummy }, { name: Two, type: dummy }]";

const SOAK: &str = "{ name: One, type: soak, params: { duration: 50m } }";

#[test]
fn window_is_checked_again_before_the_first_step_only() {
    let hour_later = OPEN.plus_seconds(3_600);
    let mut fixture = RunFixture::new(WINDOW);
    fixture.enter_stage();
    fixture.now = hour_later;
    assert!(matches!(fixture.grant(0, false), Err(CommandRefusal::InvalidState(_))));
    assert_eq!(fixture.statuses()[0], StepRunStatus::Ready);
    fixture.now = OPEN.plus_seconds(86_400);
    fixture.grant(0, false).expect("it is open again");

    let mut fixture = RunFixture::new(WINDOW);
    fixture.enter_stage();
    fixture.run_step(0, "x");
    fixture.now = hour_later;
    fixture.grant(1, false).expect("what has begun goes on");

    let mut fixture = RunFixture::new(WINDOW);
    fixture.enter_stage();
    fixture.now = hour_later;
    fixture.grant(0, true).expect("a bypass waits for no window");

    // A soak is handled by the server and does not count as a started step.
    let mut fixture = RunFixture::new(&WINDOW.replace("{ name: One, type: dummy }", SOAK));
    fixture.enter_stage();
    fixture.now = hour_later;
    let decision = gated_steps::wake(&fixture.run, &fixture.plan, fixture.now);
    fixture.apply(decision);
    assert!(matches!(fixture.grant(1, false), Err(CommandRefusal::InvalidState(_))));
}

#[test]
fn rejected_stage_fails_before_it_starts_and_can_be_retried() {
    let mut fixture = RunFixture::new(
        "stages: [{ name: a, requires: {} }, { name: b }]\nsteps: [{ name: One, type: dummy }]",
    );
    let no = ExecutionFailure { cause: FailureCode::ApprovalRejected, detail: "rejected by ada".into() };
    let decision = fail_entry(&fixture.run, &fixture.plan, no.clone(), fixture.now);
    fixture.apply(decision);
    assert_eq!(fixture.run.status(), RunStatus::Failed(no));
    assert_eq!(fixture.run.stages[1].status, StageRunStatus::Skipped);
    let decision = retry(
        &fixture.run,
        &fixture.plan,
        "a",
        RetryStart::Failed,
        &std::collections::BTreeSet::new(),
        fixture.now,
    )
    .expect("it failed");
    fixture.apply(decision);
    assert_eq!(fixture.run.queued_for(), Some((0, "a")));
    assert_eq!(fixture.run.stages[0].tries, 0);
}

#[test]
fn approval_and_soak_steps_are_not_granted_to_runners() {
    let mut fixture = RunFixture::new(
        "stages: [{ name: a }]
steps:
    - { name: Ask, type: approval, params: { approvals: 2, from: [admin], message: \"to ${{ stage.name }}\" } }
    - { name: Soak, type: soak, params: { duration: 10m } }
    - { name: Done, type: dummy }",
    );
    fixture.enter_stage();
    assert_eq!(fixture.statuses(), [StepRunStatus::Waiting, StepRunStatus::Pending, StepRunStatus::Pending]);
    assert_eq!((fixture.run.next_ready_at(), fixture.run.wakes_at()), (None, None));
    let question = fixture.plan.approval_terms(&fixture.run, 0).expect("a question");
    assert_eq!((question.rule.approvals, question.message.as_deref()), (2, Some("to a")));
    let ask = fixture.run.steps[0].id;
    let guess = resolve::resolve(&fixture.run, &fixture.plan, ask, OutcomeResolution::Ran, fixture.now);
    assert!(matches!(guess, Err(CommandRefusal::InvalidState(_))), "nothing about it is unknown");
    let early = gated_steps::end_soak(&fixture.run, &fixture.plan, ask, None, fixture.now);
    assert!(matches!(early, Err(CommandRefusal::InvalidState(_))), "it does not soak");

    let decision = gated_steps::pass_approval(&fixture.run, &fixture.plan, ask, "usr_ada", fixture.now);
    fixture.apply(decision);
    assert_eq!(fixture.run.wakes_at(), Some(OPEN.plus_seconds(600)));
    for (later_s, is_over) in [(599, false), (600, true)] {
        fixture.now = OPEN.plus_seconds(later_s);
        let decision = gated_steps::wake(&fixture.run, &fixture.plan, fixture.now);
        fixture.apply(decision);
        assert_eq!(fixture.statuses()[1] == StepRunStatus::Succeeded, is_over);
    }
    assert_eq!((fixture.statuses()[2], fixture.run.wakes_at()), (StepRunStatus::Ready, None));
}

#[test]
fn params_that_cannot_be_evaluated_fail_the_step() {
    let mut fixture = RunFixture::new(
        "stages: [{ name: a, vars: { time: soon } }]
steps: [{ name: Soak, type: soak, params: { duration: \"${{ vars.time }}\" } }]",
    );
    fixture.enter_stage();
    assert_eq!(fixture.statuses(), [StepRunStatus::Failed]);
    assert_eq!(fixture.run.steps[0].failure.as_ref().map(|it| it.cause), Some(FailureCode::NotRunnable));
}

#[test]
fn approved_deployment_is_not_superseded() {
    let other = |number: i64, status: StageRunStatus| StageContender {
        deployment: DeploymentId::from_parts(OPEN, [u8::try_from(number).expect("small"); 10]),
        number,
        status,
        is_rollback: false,
    };
    let newer = other(3, StageRunStatus::Queued);
    let waits = |is_kept: bool| WaitingDeployment { number: 2, is_protected: is_kept, has_bypass: false };
    assert_eq!(decide_entry(waits(false), &[newer]), StageEntry::SupersededBy(newer.deployment));
    assert_eq!(decide_entry(waits(true), &[newer]), StageEntry::Free);
    let inside = other(1, StageRunStatus::Waiting);
    assert_eq!(decide_entry(waits(true), &[inside, newer]), StageEntry::Behind(inside.deployment));
}

#[test]
fn approval_digest_covers_commit_definition_inputs_and_results() {
    let lines = "build: [{ name: Make, type: dummy, outputs: [v] }]
stages: [{ name: a, vars: { n: 1 }, requires: {} }, { name: b, vars: { n: 1 }, requires: {} }]
steps: [{ name: Plan, type: dummy, outputs: [v] }, { name: Ask, type: approval, needs: [plan] }, { name: Side, type: dummy, outputs: [v], needs: [] }]";
    let fixture = |built: &str| {
        let mut fixture = RunFixture::new(lines);
        fixture.run_step(0, built);
        fixture
    };
    let bound = |fixture: &RunFixture, stage: usize, commit: &str, hash: &str| {
        approval_content(&fixture.run, &fixture.plan, stage, None, commit, hash)
    };
    let first = bound(&fixture("x"), 1, "c1", "h1");
    assert_eq!(first, bound(&fixture("x"), 1, "c1", "h1"));
    let others = [
        bound(&fixture("y"), 1, "c1", "h1"),
        bound(&fixture("x"), 2, "c1", "h1"),
        bound(&fixture("x"), 1, "c2", "h1"),
        bound(&fixture("x"), 1, "c1", "h2"),
        approval_content(
            &RunFixture::new(&lines.replace("n: 1", "n: 2")).run,
            &fixture("x").plan,
            1,
            None,
            "c1",
            "h1",
        ),
    ];
    for other in others {
        assert_ne!(first, other);
    }
    // The content that an approval step covers includes the results of the steps that it needs, and no others.
    let step = |planned: &str, side: Option<&str>| {
        let mut fixture = fixture("x");
        fixture.enter_stage();
        fixture.run_step(1, planned);
        if let Some(side) = side {
            fixture.run_step(3, side);
        }
        approval_content(&fixture.run, &fixture.plan, 1, Some(2), "c1", "h1")
    };
    assert_eq!(step("p", None), step("p", Some("s")));
    assert_ne!(step("p", None), step("q", None));
}
