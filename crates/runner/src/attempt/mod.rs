//! Executes one attempt, from its assignment to its outcome.

pub(crate) mod artifacts;
pub(crate) mod dirs;
pub(crate) mod environment;
pub(crate) mod exit;
mod host;
pub(crate) mod outputs;
pub(crate) mod removal;
pub(crate) mod sharing;

pub(crate) use exit::{failed_outcome, invalid_outcome};

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{
    AttemptAssignment, AttemptRef, FailureCause, HolderFence, Isolation, LinkError, RunnerLink, SecretText,
    StepRunOutcome,
};
use berth_core::environment::fence::Fence;
use berth_core::mask::SecretMasker;
use berth_core::pipeline::seconds::DurationSeconds;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::builtin;
#[cfg(feature = "kubernetes")]
use crate::kubernetes;
use crate::log::AttemptLog;
use crate::registry;
use crate::remote::{EnvironmentHolder, StartDecision};
use crate::runner::RunnerShared;
use crate::sandbox::StepSandbox;
use crate::settings::RunnerOptions;
use crate::sources::FillError;
use crate::stop_signal::{StopReason, StopSignal};
use dirs::AttemptDirs;

/// The type of steps that the container engine executes without a container of the step.
const IMAGE_BUILD: &str = "image_build";

/// The step's outputs by name, or the outcome if the step did not succeed.
pub(crate) type StepResult = Result<BTreeMap<String, String>, StepRunOutcome>;

pub(crate) struct RunningAttempt<'a> {
    pub(crate) assignment: &'a AttemptAssignment,
    pub(crate) shared: &'a RunnerShared,
    pub(crate) control: Arc<StopSignal>,
    pub(crate) log: AttemptLog,
    pub(crate) masker: SecretMasker,
    /// When the step's timeout expires.
    pub(crate) deadline: Instant,
    /// Set once a process was started or a request was sent, because the step may have had effects since then.
    pub(crate) has_run: Cell<bool>,
    pub(crate) isolation: Cell<Isolation>,
    /// If the spool refused the attempt, the fence that caused it: the higher fence of a later holder of the
    /// environment, or the same fence if a different holder has it.
    refused_fence: Cell<Option<Fence>>,
    leased_at: Duration,
    dirs: OnceCell<AttemptDirs>,
}

/// The result of an attempt, which the dispatcher reports to the server.
pub(crate) struct AttemptResult {
    pub(crate) outcome: StepRunOutcome,
    pub(crate) isolation: Isolation,
    pub(crate) log_bytes: u64,
    /// The attempt's directories, which are removed after the report has been sent.
    pub(crate) dirs: Option<AttemptDirs>,
}

/// Executes the attempt. `leased_at` is the start of its lease as a CLOCK_BOOTTIME value.
pub(crate) fn execute(
    shared: &RunnerShared,
    assignment: &AttemptAssignment,
    control: &Arc<StopSignal>,
    leased: Duration,
) -> AttemptResult {
    let secrets = assignment.masked.iter().chain(assignment.secret_files.values());
    let password =
        assignment.registry_credential.as_ref().and_then(|it| it.reveal().trim_end().split_once(':'));
    let values: Vec<&str> =
        secrets.map(SecretText::reveal).chain(password.map(|(_, password)| password)).collect();
    let masker = SecretMasker::new(&values);
    let log = AttemptLog::new(
        shared.link.clone(),
        assignment.attempt.clone(),
        control.clone(),
        &masker,
        &shared.settings,
        shared.give_up_check(),
        assignment.custom.as_ref().map_or(0, |call| call.log_bytes),
    );
    let attempt = RunningAttempt {
        assignment,
        shared,
        control: control.clone(),
        log,
        masker,
        deadline: Instant::now() + Duration::from_secs(assignment.timeout_s),
        has_run: Cell::new(false),
        isolation: Cell::new(Isolation::None),
        refused_fence: Cell::default(),
        leased_at: leased,
        dirs: OnceCell::new(),
    };
    let outcome = match attempt.run() {
        Ok((outputs, artifacts)) => StepRunOutcome::Succeeded { outputs, artifacts },
        Err(outcome) => attempt.mask_outcome(outcome),
    };
    if assignment.custom.is_some() {
        attempt.log.end_line();
    }
    let log_bytes = attempt.log.finish();
    AttemptResult { outcome, isolation: attempt.isolation.get(), log_bytes, dirs: attempt.dirs.into_inner() }
}

type OutputsAndArtifacts = (BTreeMap<String, String>, BTreeMap<String, String>);

impl RunningAttempt<'_> {
    fn run(&self) -> Result<OutputsAndArtifacts, StepRunOutcome> {
        if let Some(why) = self.stop_reason() {
            return Err(self.stopped_outcome(&why));
        }
        #[cfg(feature = "kubernetes")]
        if self.shared.kubernetes.is_some() {
            kubernetes::refuse_unconfined_process(self)?;
        }
        let is_elsewhere = self.assignment.container.is_some() || self.assignment.kind == IMAGE_BUILD;
        if !is_elsewhere {
            self.settings().confinement.check_network(self.assignment.network).map_err(invalid_outcome)?;
        }
        match self.masker.unmaskable() {
            0 => {}
            // An earlier call of this custom step has already logged the warning below.
            _ if self.assignment.custom.as_ref().is_some_and(|call| call.log_bytes > 0) => {}
            count => self.log.write_line(&format!(
                "[berth] {count} secret values are too short, too common or too many to be masked"
            )),
        }
        let outputs = match &self.assignment.custom {
            Some(call) => registry::run_step(self, call)?,
            None => self.run_builtin()?,
        };
        for (name, value) in &outputs {
            if self.masker.contains_secret(value) || self.masker.contains_secret(name) {
                return Err(invalid_outcome(format!(
                    "the output `{name}` contains a secret; outputs are visible to users, so pass secrets in `env`"
                )));
            }
        }
        let artifacts = artifacts::keep_artifacts(self)?;
        Ok((outputs, artifacts))
    }

    fn run_builtin(&self) -> StepResult {
        let kind = builtin::BUILTINS.iter().find(|kind| kind.name() == self.assignment.kind);
        let kind = kind.ok_or_else(|| {
            invalid_outcome(format!("this runner does not know the step type `{}`", self.assignment.kind))
        })?;
        kind.run(self)
    }

    /// Records in the spool that the attempt may have effects from now on, and for which holder. Call this before the
    /// first effect. The record is durable when this returns.
    pub(crate) fn record_start(&self) -> std::io::Result<()> {
        let Some(spool) = self.shared.settings.spool.as_ref().filter(|_| !self.has_run.get()) else {
            return Ok(());
        };
        let holder = self.assignment.holder.as_ref().map(parse_holder).transpose()?;
        match spool.record_start(&self.assignment.attempt.nonce, holder)? {
            StartDecision::Allowed => Ok(()),
            StartDecision::Refused(known) => {
                self.refused_fence.set(Some(known));
                Err(std::io::Error::other("this runner has executed work of another holder"))
            }
        }
    }

    pub(crate) fn settings(&self) -> &RunnerOptions {
        &self.shared.settings
    }

    fn is_silent(&self) -> bool {
        let nonce = &self.assignment.attempt.nonce;
        self.shared.pulse.is_silent_since(nonce, self.leased_at, self.settings().self_stop)
    }

    /// Returns the reason why the attempt has to stop, if there is one. One such reason is that the server has not
    /// responded for too long.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        if self.control.reason().is_none() && self.is_silent() {
            self.control.stop(StopReason::Silence, None);
        }
        self.control.reason()
    }

    /// Whether a transfer in progress should continue. On shutdown, a transfer gets the same grace period as a process.
    pub(crate) fn is_still_wanted(&self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        match self.stop_reason() {
            None => true,
            Some(StopReason::Shutdown) => self.control.kill_by().is_some_and(|by| Instant::now() < by),
            Some(StopReason::Cancelled { .. } | StopReason::Stale | StopReason::Silence) => false,
        }
    }

    /// Waits up to `limit` for a reason to stop. Sends log chunks that become due in the meantime.
    pub(crate) fn wait(&self, limit: Duration) -> Option<StopReason> {
        let until = Instant::now() + limit;
        loop {
            if let Some(why) = self.stop_reason() {
                return Some(why);
            }
            let now = Instant::now();
            if now >= until {
                return None;
            }
            let due = self.log.due_in().unwrap_or(Duration::from_secs(1));
            self.control.wait((until - now).min(due).clamp(Duration::from_millis(1), Duration::from_secs(1)));
            self.log.tick();
        }
    }

    /// Logs why the attempt was stopped and returns the matching outcome.
    pub(crate) fn stopped_outcome(&self, why: &StopReason) -> StepRunOutcome {
        // Read the reason again, because the text of a cancellation may arrive later than the order itself.
        let why = self.control.reason().unwrap_or_else(|| why.clone());
        self.log.write_line(&format!("[berth] stopped: {}", why.to_log_text()));
        match why {
            StopReason::Cancelled { .. } | StopReason::Stale => StepRunOutcome::Stopped,
            StopReason::Shutdown | StopReason::Silence if self.has_run.get() => StepRunOutcome::Interrupted,
            StopReason::Shutdown | StopReason::Silence => StepRunOutcome::never_started(why.to_log_text()),
        }
    }

    pub(crate) fn timeout_outcome(&self) -> StepRunOutcome {
        let limit = DurationSeconds::from_secs(self.assignment.timeout_s);
        self.log.write_line(&format!("[berth] stopped: it took longer than its timeout of {limit}"));
        failed_outcome(FailureCause::TimedOut, format!("took longer than its timeout of {limit}"))
    }

    /// Creates a sandbox for the attempt's processes, and records the isolation level for the report.
    pub(crate) fn new_sandbox<'a>(&'a self, dirs: &'a AttemptDirs) -> StepSandbox<'a> {
        let sandbox = StepSandbox {
            confinement: &self.settings().confinement,
            network: self.assignment.network,
            tmp: &dirs.tmp,
            writable: vec![&dirs.dir],
            readable: if dirs.has_secrets() { vec![&dirs.secrets] } else { Vec::new() },
            id: &dirs.id,
        };
        self.isolation.set(sandbox.isolation());
        sandbox
    }

    /// Returns the attempt's directories. The first call creates them, checks out the commit and fetches
    /// artifacts.
    pub(crate) fn workspace_dirs(&self) -> Result<&AttemptDirs, StepRunOutcome> {
        if self.dirs.get().is_none() {
            let dirs = AttemptDirs::create(self.settings()).map_err(|error| {
                StepRunOutcome::never_started(format!("cannot prepare the workspace: {error}"))
            })?;
            let dirs = self.dirs.get_or_init(|| dirs);
            dirs.write_secret_files(self.settings(), &self.assignment.secret_files)
                .map_err(|detail| failed_outcome(FailureCause::Invalid, detail))?;
            let LinkParts { link, attempt } = self.parts();
            if self.assignment.has_source {
                self.check_out(dirs)?;
            }
            for name in &self.assignment.needs_artifacts {
                let what = format!("fetch the artifact `{name}`");
                self.retry_link_call(&what, || {
                    link.fetch_artifact(attempt, name, &dirs.workspace, &|| self.is_still_wanted())
                })?;
            }
        }
        self.dirs.get().ok_or_else(|| StepRunOutcome::never_started("no workspace".into()))
    }

    /// Puts the files of the commit into the workspace.
    fn check_out(&self, dirs: &AttemptDirs) -> Result<(), StepRunOutcome> {
        let LinkParts { link, attempt } = self.parts();
        let (key, paths) = (self.assignment.source_key.as_deref(), &self.assignment.source_paths);
        let filled = self.shared.sources.fill(key, paths, &dirs.workspace, |into| {
            self.retry_link_call("check out the commit", || {
                link.checkout(attempt, into, &|| self.is_still_wanted())
            })
        });
        filled.map_err(|error| match error {
            FillError::Checkout(outcome) => outcome,
            FillError::Io(error) => {
                StepRunOutcome::never_started(format!("cannot prepare the workspace: {error}"))
            }
        })
    }

    /// Retries a call to the server with backoff until the server responds, the step's timeout expires, or the attempt
    /// has to stop.
    pub(crate) fn retry_link_call<T>(
        &self,
        what: &str,
        ask: impl Fn() -> Result<T, LinkError>,
    ) -> Result<T, StepRunOutcome> {
        let mut backoff = Backoff::new();
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(error @ (LinkError::Refused(_) | LinkError::LogGap { .. })) => {
                    return Err(invalid_outcome(format!("cannot {what}: {error}")));
                }
                Err(LinkError::Unavailable(text)) => {
                    if Instant::now() >= self.deadline {
                        let detail = format!("cannot {what}: {text}");
                        return Err(match self.has_run.get() {
                            true => failed_outcome(FailureCause::TimedOut, detail),
                            false => StepRunOutcome::never_started(detail),
                        });
                    }
                    if let Some(why) = self.wait(backoff.next()) {
                        return Err(self.stopped_outcome(&why));
                    }
                }
            }
        }
    }

    pub(crate) fn parts(&self) -> LinkParts<'_> {
        LinkParts { link: &*self.shared.link, attempt: &self.assignment.attempt }
    }

    pub(crate) fn text_param(&self, name: &str) -> Option<&str> {
        self.assignment.params.get(name).and_then(Value::as_str)
    }

    /// Parses a duration parameter. The server has already validated it against the schema; a malformed value fails the
    /// step.
    pub(crate) fn duration_param(&self, name: &str) -> Result<Option<Duration>, StepRunOutcome> {
        let Some(text) = self.text_param(name) else { return Ok(None) };
        match DurationSeconds::parse(text) {
            Ok(length) => Ok(Some(Duration::from_secs(length.as_secs()))),
            Err(error) => Err(invalid_outcome(format!("the param `{name}` {error}"))),
        }
    }

    fn fence_refusal_outcome(&self, known: Fence) -> StepRunOutcome {
        let known = known.number();
        let is_same = self.assignment.holder.as_ref().is_some_and(|given| given.fence == known);
        let (whose, why) = match is_same {
            true => ("another", "the same one again"),
            false => ("a later", "a lower one"),
        };
        let detail = format!(
            "its runner has executed work of {whose} holder of the environment, under fence {known}, and refuses {why}"
        );
        StepRunOutcome::NeverStarted { detail, known_fence: Some(known) }
    }

    /// Masks secrets in the detail text of an outcome, which may quote a URL or a line of output.
    fn mask_outcome(&self, outcome: StepRunOutcome) -> StepRunOutcome {
        match outcome {
            StepRunOutcome::Failed { cause, detail, exit_code } => {
                StepRunOutcome::Failed { cause, detail: self.masker.mask(&detail), exit_code }
            }
            StepRunOutcome::NeverStarted { detail, .. } => match self.refused_fence.get() {
                Some(known) => self.fence_refusal_outcome(known),
                None => StepRunOutcome::never_started(self.masker.mask(&detail)),
            },
            StepRunOutcome::Unanswered { detail } => {
                StepRunOutcome::Unanswered { detail: self.masker.mask(&detail) }
            }
            StepRunOutcome::ApprovalRequired { context } => {
                StepRunOutcome::ApprovalRequired { context: context.map(|text| self.masker.mask(&text)) }
            }
            other @ (StepRunOutcome::Succeeded { .. }
            | StepRunOutcome::Stopped
            | StepRunOutcome::Interrupted
            | StepRunOutcome::Waiting { .. }) => other,
        }
    }
}

pub(crate) struct LinkParts<'a> {
    pub(crate) link: &'a dyn RunnerLink,
    pub(crate) attempt: &'a AttemptRef,
}

fn parse_holder(given: &HolderFence) -> std::io::Result<EnvironmentHolder> {
    let session = given.session_id.as_deref().map(str::parse).transpose();
    Ok(EnvironmentHolder {
        environment: given.environment_id.parse().map_err(std::io::Error::other)?,
        fence: Fence::from_number(given.fence),
        session: session.map_err(std::io::Error::other)?,
    })
}
