//! A runner that is connected to a test server, and helpers that build assignments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptAssignment, AttemptRef, StepRunOutcome};
use berth_runner::{Confinement, RunnerOptions, RunnerStartError, SandboxMode, StepRunner};
use berth_testkit::outcome;
use serde_json::{Map, Value, json};

use crate::link::{PATIENCE, TestLink};

pub(crate) struct StepRunnerFixture {
    pub(crate) link: Arc<TestLink>,
    runner: Option<StepRunner>,
    pub(crate) dir: tempfile::TempDir,
}

impl StepRunnerFixture {
    pub(crate) fn new() -> Self {
        Self::with_options(|_| {})
    }

    pub(crate) fn with_options(change: impl FnOnce(&mut RunnerOptions)) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let link = Arc::new(TestLink::default());
        let mut settings = runner_options(dir.path().join("work"));
        change(&mut settings);
        let runner = StepRunner::start(settings, link.clone()).expect("runner");
        Self { link, runner: Some(runner), dir }
    }

    /// Runs one step and returns its outcome.
    pub(crate) fn run(&self, assignment: AttemptAssignment) -> StepRunOutcome {
        let step = assignment.attempt.step_id.clone();
        self.link.enqueue(assignment);
        self.link.wait_for_report(&step).outcome
    }

    pub(crate) fn stop(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.stop();
        }
    }
}

/// Prints that a test is skipped because a sandbox level does not work on this machine. Bubblewrap can be installed, so
/// the output says how; Landlock depends on the kernel.
pub(crate) fn skip_level(sandbox: SandboxMode, why: &str) {
    match sandbox {
        SandboxMode::Bubblewrap => {
            outcome::skip("bubblewrap", &format!("apt-get install bubblewrap ({why})"));
        }
        _ => outcome::report_impossible(&format!("sandbox {sandbox:?}"), why),
    }
}

/// Stops the runner after every test. Checks that the protocol was not violated and that no attempt directory is left.
impl Drop for StepRunnerFixture {
    fn drop(&mut self) {
        self.stop();
        if !std::thread::panicking() {
            self.link.check_no_faults();
            let left: Vec<_> = std::fs::read_dir(self.dir.path().join("work/attempts"))
                .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
                .unwrap_or_default();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// Returns `None` if the sandbox level does not work on this machine.
pub(crate) fn choose_confinement(sandbox: SandboxMode, hidden: &[PathBuf]) -> Option<Confinement> {
    match Confinement::choose(sandbox, hidden, &[]) {
        Ok(confinement) => Some(confinement),
        Err(RunnerStartError::Sandbox(_, why)) => {
            skip_level(sandbox, &why);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

pub(crate) fn runner_options(work_dir: PathBuf) -> RunnerOptions {
    let mut settings = RunnerOptions::new(
        work_dir,
        "boot-1".into(),
        choose_confinement(SandboxMode::Off, &[]).expect("none"),
    );
    settings.stop_grace = Duration::from_secs(1);
    settings.shutdown_grace = Duration::from_secs(1);
    settings.acquire_wait = Duration::from_millis(200);
    settings
}

pub(crate) fn step(id: &str, kind: &str, params: Value) -> AttemptAssignment {
    let Value::Object(params) = params else { panic!("params are an object") };
    AttemptAssignment {
        attempt: AttemptRef {
            organization_id: "org_1".into(),
            deployment_id: "dep_1".into(),
            step_id: id.into(),
            number: 1,
            nonce: String::new(),
        },
        step: id.into(),
        step_name: id.into(),
        custom: None,
        kind: kind.into(),
        params: params.into_iter().collect::<Map<_, _>>(),
        env: BTreeMap::new(),
        secret_files: BTreeMap::new(),
        masked: Vec::new(),
        facts: BTreeMap::new(),
        outputs: Vec::new(),
        artifacts: BTreeMap::new(),
        needs_artifacts: Vec::new(),
        has_source: false,
        source_key: None,
        source_paths: Vec::new(),
        network: berth_api::runner::Network::Host,
        timeout_s: 60,
        granted_ms_ago: 0,
        holder: None,
        container: None,
        registry_credential: None,
        kubeconfig: None,
        is_untrusted: false,
    }
}

pub(crate) fn script(id: &str, run: &str) -> AttemptAssignment {
    step(id, "script", json!({ "run": run }))
}

pub(crate) fn expect_success(outcome: &StepRunOutcome) -> &BTreeMap<String, String> {
    match outcome {
        StepRunOutcome::Succeeded { outputs, .. } => outputs,
        other => panic!("wanted a success, got {other:?}"),
    }
}

pub(crate) fn expect_failure(outcome: &StepRunOutcome) -> (berth_api::runner::FailureCause, &str) {
    match outcome {
        StepRunOutcome::Failed { cause, detail, .. } => (*cause, detail),
        other => panic!("wanted a failure, got {other:?}"),
    }
}

/// Returns an argument for `sleep` that no other test uses.
pub(crate) fn unique_sleep() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("1000.{}{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Lists the processes whose command line is `sleep MARK`.
pub(crate) fn list_sleepers(mark: &str) -> Vec<String> {
    let wanted = format!("sleep\0{mark}\0").into_bytes();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    numbers
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|number| {
            let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            line.ends_with(&wanted)
        })
        .collect()
}

/// Waits until a condition holds. Panics after a timeout.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
