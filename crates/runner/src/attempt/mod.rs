//! Executes one attempt, from its assignment to its outcome.

pub(crate) mod artifacts;
pub(crate) mod environment;
pub(crate) mod exit;
mod host;
pub(crate) mod outputs;
pub(crate) mod place;
pub(crate) mod removal;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{
    Assignment, AttemptRef, FailureCause, HolderFence, Isolation, Link, LinkError, Outcome, SecretText,
};
use berth_core::environment::fence::Fence;
use berth_core::mask::Masker;
use berth_core::pipeline::seconds::Seconds;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::builtin;
use crate::control::{Control, Why};
use crate::log::Log;
use crate::registry;
use crate::remote::{Begins, Holder};
use crate::runner::Shared;
use crate::sandbox::Cage;
use crate::settings::Settings;
use place::Place;

/// Outputs by name, or the outcome of an attempt that did not succeed.
pub(crate) type Done = Result<BTreeMap<String, String>, Outcome>;

pub(crate) struct Attempt<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) shared: &'a Shared,
    pub(crate) control: Arc<Control>,
    pub(crate) log: Log,
    pub(crate) masker: Masker,
    /// End of the step's timeout.
    pub(crate) by: Instant,
    /// Set once a process was started or a request was sent: the step may have had effects.
    pub(crate) has_run: Cell<bool>,
    pub(crate) isolation: Cell<Isolation>,
    /// Set when the spool refused the attempt: the fence of a later or different holder.
    refused: Cell<Option<Fence>>,
    leased: Duration,
    place: OnceCell<Place>,
}

/// What the dispatcher reports to the server.
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) isolation: Isolation,
    pub(crate) log_bytes: u64,
    /// Removed after the report has been sent.
    pub(crate) place: Option<Place>,
}

/// Runs the attempt to its end. `leased_at` is when its lease began, as CLOCK_BOOTTIME.
pub(crate) fn execute(
    shared: &Shared,
    assignment: &Assignment,
    control: &Arc<Control>,
    leased: Duration,
) -> Finished {
    let secrets = assignment.masked.iter().chain(assignment.secret_files.values());
    let values: Vec<&str> = secrets.map(SecretText::reveal).collect();
    let masker = Masker::new(&values);
    let log = Log::new(
        shared.link.clone(),
        assignment.attempt.clone(),
        control.clone(),
        &masker,
        &shared.settings,
        shared.give_up(),
        assignment.custom.as_ref().map_or(0, |call| call.log_bytes),
    );
    let attempt = Attempt {
        assignment,
        shared,
        control: control.clone(),
        log,
        masker,
        by: Instant::now() + Duration::from_secs(assignment.timeout_s),
        has_run: Cell::new(false),
        isolation: Cell::new(Isolation::None),
        refused: Cell::default(),
        leased,
        place: OnceCell::new(),
    };
    let outcome = match attempt.run() {
        Ok((outputs, artifacts)) => Outcome::Succeeded { outputs, artifacts },
        Err(outcome) => attempt.masked(outcome),
    };
    if assignment.custom.is_some() {
        attempt.log.end_line();
    }
    let log_bytes = attempt.log.finish();
    Finished { outcome, isolation: attempt.isolation.get(), log_bytes, place: attempt.place.into_inner() }
}

type Kept = (BTreeMap<String, String>, BTreeMap<String, String>);

impl Attempt<'_> {
    fn run(&self) -> Result<Kept, Outcome> {
        if let Some(why) = self.asked() {
            return Err(self.halted(&why));
        }
        self.settings().confinement.check_network(self.assignment.network).map_err(invalid)?;
        match self.masker.unmaskable() {
            0 => {}
            // Already logged by the first call.
            _ if self.assignment.custom.as_ref().is_some_and(|call| call.log_bytes > 0) => {}
            count => self.log.line(&format!(
                "[berth] {count} secret values are too short, too common or too many to be masked"
            )),
        }
        let outputs = match &self.assignment.custom {
            Some(call) => registry::run_step(self, call)?,
            None => self.run_builtin()?,
        };
        for (name, value) in &outputs {
            if self.masker.finds_in(value) || self.masker.finds_in(name) {
                return Err(invalid(format!(
                    "the output `{name}` contains a secret; outputs are visible to users, so pass secrets in `env`"
                )));
            }
        }
        let artifacts = artifacts::keep(self)?;
        Ok((outputs, artifacts))
    }

    fn run_builtin(&self) -> Done {
        let kind = builtin::BUILTINS.iter().find(|kind| kind.name() == self.assignment.kind);
        let kind = kind.ok_or_else(|| {
            invalid(format!("this runner does not know the step type `{}`", self.assignment.kind))
        })?;
        kind.run(self)
    }

    /// Records in the spool that the attempt may have effects, and for which holder. The record is fsynced before
    /// this returns; call it before the first effect.
    pub(crate) fn begins(&self) -> std::io::Result<()> {
        let Some(spool) = self.shared.settings.spool.as_ref().filter(|_| !self.has_run.get()) else {
            return Ok(());
        };
        let holder = self.assignment.holder.as_ref().map(holder).transpose()?;
        match spool.begins(&self.assignment.attempt.nonce, holder)? {
            Begins::Yes => Ok(()),
            Begins::Refused(known) => {
                self.refused.set(Some(known));
                Err(std::io::Error::other("this runner has executed work of another holder"))
            }
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    fn is_silent(&self) -> bool {
        let nonce = &self.assignment.attempt.nonce;
        self.shared.pulse.is_silent_since(nonce, self.leased, self.settings().self_stop)
    }

    /// Returns why the attempt has to stop, if it has to. A server that is silent for too long counts as a reason.
    pub(crate) fn asked(&self) -> Option<Why> {
        if self.control.asked().is_none() && self.is_silent() {
            self.control.stop(Why::Silence, None);
        }
        self.control.asked()
    }

    /// Whether a running transfer should continue. On shutdown it gets the same grace period as processes.
    pub(crate) fn goes_on(&self) -> bool {
        if Instant::now() >= self.by {
            return false;
        }
        match self.asked() {
            None => true,
            Some(Why::Shutdown) => self.control.kill_by().is_some_and(|by| Instant::now() < by),
            Some(Why::Cancelled { .. } | Why::Stale | Why::Silence) => false,
        }
    }

    /// Waits up to `limit` for a reason to stop, sending due log chunks in the meantime.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Why> {
        let until = Instant::now() + limit;
        loop {
            if let Some(why) = self.asked() {
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

    /// Logs why the attempt stopped and returns the matching outcome.
    pub(crate) fn halted(&self, why: &Why) -> Outcome {
        // The order to cancel may arrive before its reason.
        let why = self.control.asked().unwrap_or_else(|| why.clone());
        self.log.line(&format!("[berth] stopped: {}", why.text()));
        match why {
            Why::Cancelled { .. } | Why::Stale => Outcome::Stopped,
            Why::Shutdown | Why::Silence if self.has_run.get() => Outcome::Interrupted,
            Why::Shutdown | Why::Silence => Outcome::never_started(why.text()),
        }
    }

    pub(crate) fn timed_out(&self) -> Outcome {
        let limit = Seconds::from_secs(self.assignment.timeout_s);
        self.log.line(&format!("[berth] stopped: it took longer than its timeout of {limit}"));
        failed(FailureCause::TimedOut, format!("took longer than its timeout of {limit}"))
    }

    /// Creates the sandbox for a process of this attempt and records its isolation level for the report.
    pub(crate) fn cage<'a>(&'a self, place: &'a Place) -> Cage<'a> {
        let cage = Cage {
            confinement: &self.settings().confinement,
            network: self.assignment.network,
            tmp: &place.tmp,
            own: vec![&place.dir],
            read: if place.has_secrets() { vec![&place.secrets] } else { Vec::new() },
            id: &place.id,
        };
        self.isolation.set(cage.isolation());
        cage
    }

    /// Returns the attempt's directories. The first call creates them, checks out the commit and fetches
    /// artifacts.
    pub(crate) fn place(&self) -> Result<&Place, Outcome> {
        if self.place.get().is_none() {
            let place = Place::create(self.settings())
                .map_err(|error| Outcome::never_started(format!("cannot prepare the workspace: {error}")))?;
            let place = self.place.get_or_init(|| place);
            place
                .put_secrets(self.settings(), &self.assignment.secret_files)
                .map_err(|detail| failed(FailureCause::Invalid, detail))?;
            let AttemptParts { link, attempt } = self.parts();
            if self.assignment.has_source {
                self.insist("check out the commit", || {
                    link.checkout(attempt, &place.workspace, &|| self.goes_on())
                })?;
            }
            for name in &self.assignment.needs_artifacts {
                let what = format!("fetch the artifact `{name}`");
                self.insist(&what, || {
                    link.fetch_artifact(attempt, name, &place.workspace, &|| self.goes_on())
                })?;
            }
        }
        self.place.get().ok_or_else(|| Outcome::never_started("no workspace".into()))
    }

    /// Retries a call to the server with backoff until it answers, the timeout expires or the attempt has to stop.
    pub(crate) fn insist<T>(&self, what: &str, ask: impl Fn() -> Result<T, LinkError>) -> Result<T, Outcome> {
        let mut backoff = Backoff::new();
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(LinkError::Refused(text)) => return Err(invalid(format!("cannot {what}: {text}"))),
                Err(LinkError::Unavailable(text)) => {
                    if Instant::now() >= self.by {
                        let detail = format!("cannot {what}: {text}");
                        return Err(match self.has_run.get() {
                            true => failed(FailureCause::TimedOut, detail),
                            false => Outcome::never_started(detail),
                        });
                    }
                    if let Some(why) = self.wait(backoff.next()) {
                        return Err(self.halted(&why));
                    }
                }
            }
        }
    }

    pub(crate) fn parts(&self) -> AttemptParts<'_> {
        AttemptParts { link: &*self.shared.link, attempt: &self.assignment.attempt }
    }

    pub(crate) fn text_param(&self, name: &str) -> Option<&str> {
        self.assignment.params.get(name).and_then(Value::as_str)
    }

    /// Parses a duration parameter. The server validated the schema; a malformed value still fails the step.
    pub(crate) fn duration_param(&self, name: &str) -> Result<Option<Duration>, Outcome> {
        let Some(text) = self.text_param(name) else { return Ok(None) };
        match Seconds::parse(text) {
            Ok(length) => Ok(Some(Duration::from_secs(length.as_secs()))),
            Err(error) => Err(invalid(format!("the param `{name}` {error}"))),
        }
    }

    fn refused(&self, known: Fence) -> Outcome {
        let known = known.number();
        let is_same = self.assignment.holder.as_ref().is_some_and(|given| given.fence == known);
        let (whose, why) = match is_same {
            true => ("another", "the same one again"),
            false => ("a later", "a lower one"),
        };
        let detail = format!(
            "its runner has executed work of {whose} holder of the environment, under fence {known}, and refuses {why}"
        );
        Outcome::NeverStarted { detail, known_fence: Some(known) }
    }

    /// Masks secrets in the outcome's detail, which may quote a URL or a line of output.
    fn masked(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failed { cause, detail, exit_code } => {
                Outcome::Failed { cause, detail: self.masker.mask(&detail), exit_code }
            }
            Outcome::NeverStarted { detail, .. } => match self.refused.get() {
                Some(known) => self.refused(known),
                None => Outcome::never_started(self.masker.mask(&detail)),
            },
            Outcome::Unanswered { detail } => Outcome::Unanswered { detail: self.masker.mask(&detail) },
            Outcome::ApprovalRequired { context } => {
                Outcome::ApprovalRequired { context: context.map(|text| self.masker.mask(&text)) }
            }
            other @ (Outcome::Succeeded { .. }
            | Outcome::Stopped
            | Outcome::Interrupted
            | Outcome::Waiting { .. }) => other,
        }
    }
}

pub(crate) struct AttemptParts<'a> {
    pub(crate) link: &'a dyn Link,
    pub(crate) attempt: &'a AttemptRef,
}

fn holder(given: &HolderFence) -> std::io::Result<Holder> {
    let session = given.session_id.as_deref().map(str::parse).transpose();
    Ok(Holder {
        environment: given.environment_id.parse().map_err(std::io::Error::other)?,
        fence: Fence::from_number(given.fence),
        session: session.map_err(std::io::Error::other)?,
    })
}

pub(crate) fn failed(cause: FailureCause, detail: String) -> Outcome {
    Outcome::Failed { cause, detail, exit_code: None }
}

pub(crate) fn invalid(detail: String) -> Outcome {
    failed(FailureCause::Invalid, detail)
}
