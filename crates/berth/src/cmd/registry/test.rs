//! `berth registry test`: builds a registry as the server does and calls its steps as a runner does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_core::registry::{CustomStepResponse, StepMetadata, step_key};
use berth_runner::Confinement;
use berth_runner::registry::{
    BuiltRegistry, RegistryBuildError, RegistryBuildRequest, RegistryCallError, RegistryCallOutcome,
    RegistryCallRequest, build, call, execution_task,
};
use berth_server::limits::{REGISTRY_BUILD_S_MAX, REGISTRY_BYTES_MAX};
use serde_json::{Map, Value};

use super::interrupt::InterruptFlag;
use super::progress::{ProgressMark, ProgressPrinter, format_seconds};
use super::{RegistryTestArgs, copy, hints};
use crate::client::exit_code::{INTERRUPTED, NOT_FOUND, USAGE};
use crate::config::SandboxLevel;
use crate::embedded;
use crate::output::print_note;

/// Maximum number of times a step is called.
const CALLS_MAX: usize = 10_000;
/// Approver name that is passed to the step.
const APPROVER: &str = "registry-test";
/// Environment variables with network settings of this machine, passed to the build.
const INHERITED_ENV: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "npm_config_registry",
];
/// Those of the variables above that contain the path of a file. The sandbox must expose the file.
const CERTIFICATES: &[&str] = &["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

/// Reason to end the command early.
enum TestAbort {
    Code(u8),
    Fault(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for TestAbort {
    fn from(error: E) -> Self {
        TestAbort::Fault(error.into())
    }
}

struct RegistryTest<'a> {
    args: &'a RegistryTestArgs,
    screen: ProgressPrinter,
    interrupt: InterruptFlag,
    source: PathBuf,
    scratch: PathBuf,
    workspace: PathBuf,
    confinement: Confinement,
}

pub(super) fn run(args: &RegistryTestArgs) -> anyhow::Result<ExitCode> {
    if !args.dir.is_dir() {
        print_note(&format!("error: directory {} does not exist", args.dir.display()));
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let temp = tempfile::tempdir().context("cannot create a build directory")?;
    let yard = temp.path().canonicalize()?;
    let mut trial = RegistryTest {
        args,
        screen: ProgressPrinter::new(),
        interrupt: InterruptFlag::listen()?,
        source: yard.join("registry"),
        scratch: yard.join("scratch"),
        workspace: yard.join("workspace"),
        confinement: choose_confinement(args.sandbox)?,
    };
    match trial.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(TestAbort::Code(code)) => Ok(ExitCode::from(code)),
        Err(TestAbort::Fault(error)) => Err(error),
    }
}

/// Chooses the same sandbox level as a server started with `--local`.
fn choose_confinement(level: SandboxLevel) -> anyhow::Result<Confinement> {
    let certificates = CERTIFICATES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let exposed: Vec<PathBuf> = certificates.filter(|path| path.exists()).collect();
    Confinement::choose(embedded::sandbox_mode(level, true), &[], &exposed)
        .context("no sandbox available; install bubblewrap, or use --sandbox off if you trust this registry")
}

impl RegistryTest<'_> {
    fn run(&mut self) -> Result<(), TestAbort> {
        let files = copy::copy_source(&self.args.dir, &self.source)?;
        std::fs::create_dir_all(&self.workspace)?;
        self.screen.print_mark(ProgressMark::Running, &format!("building a copy of {files} files"))?;
        let built = self.build()?;
        self.screen.print_mark(ProgressMark::Passed, &format!("built; {} steps", built.steps.len()))?;
        for step in &built.steps {
            let about = step.short_description.as_deref().unwrap_or_default();
            self.screen.print_mark(
                ProgressMark::Passed,
                format!("{} ({}) {about}", step.key, step.step_type).trim_end(),
            )?;
        }
        for hint in built.steps.iter().flat_map(hints::metadata_hints) {
            self.screen.print_mark(ProgressMark::Hint, &hint)?;
        }
        let Some(wanted) = &self.args.step else { return Ok(()) };
        let step = self.find_step(&built, wanted)?;
        self.check_params(step)?;
        self.run_step(&built, step)
    }

    fn build(&mut self) -> Result<BuiltRegistry, TestAbort> {
        let (mut env, mut writable) = (inherited_env(), Vec::new());
        // Share the user's npm cache with the build.
        let cache = std::env::home_dir().map(|home| home.join(".npm")).filter(|dir| dir.is_dir());
        if let Some(cache) = cache {
            env.insert("npm_config_cache".into(), cache.display().to_string());
            writable.push(cache);
        }
        let interrupt = self.interrupt.clone();
        let is_stopping = || interrupt.is_set();
        let request = RegistryBuildRequest {
            source: self.source.clone(),
            scratch: self.scratch.clone(),
            timeout: Duration::from_secs(REGISTRY_BUILD_S_MAX),
            bytes_max: REGISTRY_BYTES_MAX,
            is_stopping: &is_stopping,
            confinement: &self.confinement,
            writable,
            env,
        };
        match build(&request, &mut |bytes: &[u8]| self.screen.write_log(bytes)) {
            Ok(built) => Ok(built),
            Err(RegistryBuildError::Stopped) => Err(TestAbort::Code(INTERRUPTED)),
            Err(RegistryBuildError::Registry(told)) => self.fail(&told),
            Err(RegistryBuildError::Machine(told)) => Err(anyhow::anyhow!(told).into()),
        }
    }

    fn find_step<'b>(
        &mut self,
        built: &'b BuiltRegistry,
        wanted: &str,
    ) -> Result<&'b StepMetadata, TestAbort> {
        let key = step_key(wanted);
        let found = built.steps.iter().find(|step| Some(&step.key) == key.as_ref());
        if let Some(step) = found {
            return Ok(step);
        }
        let known: Vec<&str> = built.steps.iter().map(|step| step.key.as_str()).collect();
        let told = format!("no step `{wanted}`; steps: {}", known.join(", "));
        self.screen.print_mark(ProgressMark::Failed, &told)?;
        Err(TestAbort::Code(NOT_FOUND))
    }

    /// Checks the params before any step runs, as the server does for a pipeline.
    fn check_params(&mut self, step: &StepMetadata) -> Result<(), TestAbort> {
        let params = self.params();
        let schema = berth_definition::custom_step::params_schema(&step.schema)
            .map_err(|refused| anyhow::anyhow!("{refused}"))?;
        let mut problems = schema.check(&Value::Object(params.clone()), |_| false);
        // Steps ignore unknown params, so these are reported as hints, not as errors.
        problems.retain(|problem| problem.code != "unknown_param");
        for problem in &problems {
            let at = if problem.pointer.is_empty() { "params" } else { &problem.pointer };
            self.screen.print_mark(ProgressMark::Failed, &format!("{at}: {}", problem.message))?;
        }
        if !problems.is_empty() {
            self.screen.print_mark(
                ProgressMark::Failed,
                "a pipeline with these params would be rejected; pass others with --params",
            )?;
            return Err(TestAbort::Code(USAGE));
        }
        for hint in hints::param_hints(step, &params) {
            self.screen.print_mark(ProgressMark::Hint, &hint)?;
        }
        Ok(())
    }

    fn run_step(&mut self, built: &BuiltRegistry, step: &StepMetadata) -> Result<(), TestAbort> {
        let params = self.params();
        let by = Instant::now() + Duration::from_secs(self.args.timeout.as_secs());
        let (mut state, mut approver): (Option<Value>, Option<&str>) = (None, None);
        for number in 1..=CALLS_MAX {
            self.screen.print_mark(ProgressMark::Running, &format!("call {number} of {}", step.step_type))?;
            let task = execution_task(&step.step_type, &params, approver, state.as_ref());
            match self.call_step(built, &task, by)? {
                CustomStepResponse::Succeeded { outputs } => {
                    let calls = if number == 1 { "one call".into() } else { format!("{number} calls") };
                    let mut told = format!("SUCCESS after {calls}");
                    for (name, value) in outputs {
                        told.push_str(&format!("\n{name} = {value}"));
                    }
                    self.screen.print_mark(ProgressMark::Passed, &told)?;
                    return Ok(());
                }
                CustomStepResponse::Failed { error, code } => {
                    let code = code.map(|code| format!(" {code}")).unwrap_or_default();
                    return self.fail(&format!("FAILED{code}: {error}"));
                }
                CustomStepResponse::ApprovalRequired { context } => {
                    let context = context.unwrap_or_else(|| "no reason given".into());
                    self.screen.print_mark(ProgressMark::Passed, &format!("APPROVAL_REQUIRED: {context}"))?;
                    if approver.is_some() {
                        return self.fail("asks for approval again after it was given");
                    }
                    if !self.args.approve {
                        self.screen.print_mark(
                            ProgressMark::Hint,
                            "stopped here; use --approve to continue as approved",
                        )?;
                        return Ok(());
                    }
                    approver = Some(APPROVER);
                }
                CustomStepResponse::Waiting { state: remembered, pause_ms } => {
                    self.screen
                        .print_mark(ProgressMark::Passed, &format!("waiting with state {remembered}"))?;
                    state = Some(remembered);
                    let left = by.saturating_duration_since(Instant::now());
                    self.screen
                        .wait_with_countdown(Duration::from_millis(pause_ms).min(left), &self.interrupt)?;
                }
            }
            if self.interrupt.is_set() {
                return Err(TestAbort::Code(INTERRUPTED));
            }
        }
        self.fail(&format!("did not finish within {CALLS_MAX} calls"))
    }

    /// Calls the step once and reports common mistakes.
    fn call_step(
        &mut self,
        built: &BuiltRegistry,
        task: &Value,
        by: Instant,
    ) -> Result<CustomStepResponse, TestAbort> {
        let env = self.args.variables();
        let interrupt = self.interrupt.clone();
        let began = Instant::now();
        let request = RegistryCallRequest {
            registry: &self.source,
            start: &built.start,
            input: built.input,
            task,
            scratch: &self.scratch,
            workspace: &self.workspace,
            timeout: by.saturating_duration_since(began),
            is_stopping: &|| interrupt.is_set(),
            confinement: &self.confinement,
            env: &env,
        };
        let screen = &mut self.screen;
        let called = match call(&request, &mut |bytes: &[u8]| screen.write_log(bytes)) {
            Ok(called) => called,
            Err(RegistryCallError::TooLong(told)) => return self.fail(&told),
            Err(RegistryCallError::Machine(told)) => return Err(anyhow::anyhow!(told).into()),
        };
        let limit = self.args.timeout;
        match called {
            RegistryCallOutcome::Answered { answer, remark } => {
                if let Some(remark) = remark {
                    let told = format!("process: {remark}. The answer file counts, so this has no effect");
                    self.screen.print_mark(ProgressMark::Hint, &told)?;
                }
                for hint in hints::answer_hints(&answer) {
                    self.screen.print_mark(ProgressMark::Hint, &hint)?;
                }
                match CustomStepResponse::parse(&answer) {
                    Ok(answer) => {
                        self.screen.print_mark(
                            ProgressMark::Passed,
                            &format!("answered within {}", format_seconds(began.elapsed())),
                        )?;
                        Ok(answer)
                    }
                    Err(told) => self.fail(&format!("{told}; the step's outcome would be unknown")),
                }
            }
            RegistryCallOutcome::Unanswered(told) => self.fail(&format!(
                "{told}; the step's outcome would be unknown. Catch errors and answer FAILED"
            )),
            RegistryCallOutcome::TimedOut => {
                self.fail(&format!("timed out after {limit}; change the limit with --timeout"))
            }
            RegistryCallOutcome::Stopped => Err(TestAbort::Code(INTERRUPTED)),
        }
    }

    fn params(&self) -> Map<String, Value> {
        self.args.params.as_ref().map(|params| params.0.clone()).unwrap_or_default()
    }

    fn fail<T>(&mut self, told: &str) -> Result<T, TestAbort> {
        self.screen.print_mark(ProgressMark::Failed, told)?;
        Err(TestAbort::Code(1))
    }
}

fn inherited_env() -> BTreeMap<String, String> {
    let passed =
        INHERITED_ENV.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    passed.collect()
}
