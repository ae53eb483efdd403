//! The embedded runner's way to the server: the same words a remote one will use, without a wire.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{
    Acquire, Assignment, AttemptRef, FailureCause, Heartbeat, Isolation, Link, LinkError, Order, Outcome,
    Report, Reported, Told,
};
use berth_core::deployment::report::Order as Ordered;
use berth_core::deployment::{Cause, Failure};
use berth_core::id::OrgId;
use berth_core::run::{Outcome as Ended, Parking};
use berth_store::query::runs::{self, Live};

use super::assign::assign;
use super::grant::{Asking, Granted, grant_ready};
use super::lost::LIVE_MAX;
use super::report::{Ending, Named, Next, Said, Stored, order, renew, store_report};
use super::rollback::kept_then;
use crate::app::App;
use crate::artifacts::ArtifactError;
use crate::error::AppError;
use crate::git::{GitError, Sha};
use crate::logs::{Appended, LogError, LogKey, LogStream};

/// However often the bell rings, orders are not looked up more often than this.
const ORDERS_PAUSE: Duration = Duration::from_millis(10);
/// Something may have become ready that nobody rang for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Embedded {
    app: Arc<App>,
}

impl Embedded {
    pub fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    /// What the runner calls itself.
    pub fn boot(&self) -> &str {
        self.app.engine.boot()
    }

    /// What waits for a certain moment is not kept waiting for longer.
    fn next_look(&self) -> Duration {
        let next = self.app.store.read_blocking(None, |db| {
            let now = db.now();
            Ok::<_, AppError>(runs::next_ready(db, now)?.map(|at| at.as_micros() - now.as_micros()))
        });
        let micros = next.ok().flatten().and_then(|micros| u64::try_from(micros).ok());
        micros.map_or(LOOK_EVERY, |micros| LOOK_EVERY.min(Duration::from_micros(micros)))
    }

    /// A step that cannot begin ends here, and its runner never hears of it.
    fn assigned(&self, granted: &Granted) -> Result<Option<Assignment>, AppError> {
        let assigned = assign(granted).map_err(|detail| {
            let failure = Failure { cause: Cause::NotRunnable, detail };
            Ended::Failed { failure, exit_code: None }
        });
        let assigned = assigned.and_then(|mut assignment| {
            if let Some(call) = assignment.custom.as_mut().filter(|_| granted.attempt.calls > 1) {
                // A log that cannot be read now keeps this call waiting, and no other step.
                call.log_bytes = self.logged(granted).map_err(|detail| Ended::NeverStarted { detail })?;
            }
            Ok(assignment)
        });
        match assigned {
            Ok(assignment) => Ok(Some(assignment)),
            Err(ended) => {
                let said = Said {
                    attempt: Named {
                        org: granted.org,
                        deployment: granted.run.deployment,
                        step: granted.attempt.step,
                        number: granted.attempt.number,
                        nonce: granted.attempt.nonce.clone(),
                    },
                    ending: Ending::Over(ended),
                    isolation: "none",
                    log_bytes: 0,
                    next: None,
                };
                store_report(&self.app, said).map(|_| None)
            }
        }
    }

    /// How much there is of the attempt's log. A call that was lost may have written more than it reported.
    fn logged(&self, granted: &Granted) -> Result<u64, String> {
        let (step, attempt) = (granted.attempt.step, granted.attempt.number);
        let (org, deployment, stream) = (granted.org, granted.run.deployment, LogStream::Step);
        let key = LogKey { org, deployment, step, attempt, stream };
        let log = self.app.logs.open(&key).map_err(|error| format!("its log cannot be read: {error}"))?;
        Ok(log.map_or(0, |log| log.length()))
    }

    /// Those the runner named, and those it was granted since: none waits for the next heartbeat to be told to stop.
    fn orders(&self, boot: &str, attempts: &[Named]) -> Result<Vec<Told>, AppError> {
        let plans = self.app.engine.plans();
        let boot = boot.to_owned();
        let live = self
            .app
            .store
            .read_blocking(None, move |db| Ok::<_, AppError>(runs::live_of(db, &boot, LIVE_MAX)?))?;
        let is_named = |it: &Live| attempts.iter().any(|named| named.nonce == it.nonce);
        let since = live.into_iter().filter(|it| !is_named(it)).map(Named::from);
        let all: Vec<Named> = attempts.iter().cloned().chain(since).collect();
        let mut told = Vec::with_capacity(all.len());
        for it in &all {
            let (plans, named) = (plans.clone(), it.clone());
            let (found, reason) =
                self.app.store.read_blocking(Some(it.org), move |db| order(db, &plans, &named))?;
            told.push(Told { nonce: it.nonce.clone(), order: ordered(found), reason });
        }
        Ok(told)
    }
}

impl Link for Embedded {
    fn acquire(&self, asked: &Acquire, wait: Duration) -> Result<Vec<Assignment>, LinkError> {
        let deadline = Instant::now() + wait;
        let asking = Asking { boot: &asked.boot, nonces: &asked.nonces, labels: &asked.labels };
        loop {
            let heard = self.app.engine.bell.rings();
            if self.app.shutdown.is_cancelled() {
                return Ok(Vec::new());
            }
            let given = grant_ready(&self.app, &asking).map_err(unavailable)?;
            let mut work = Vec::with_capacity(given.granted.len());
            for it in &given.granted {
                work.extend(self.assigned(it).map_err(unavailable)?);
            }
            // Also when nothing is left to do: the nonces are used.
            if given.used > 0 {
                return Ok(work);
            }
            if Instant::now() >= deadline {
                return Ok(Vec::new());
            }
            self.app.engine.bell.wait(heard, deadline.min(Instant::now() + self.next_look()));
        }
    }

    fn heartbeat(&self, beat: &Heartbeat, wait: Duration) -> Result<Vec<Told>, LinkError> {
        let deadline = Instant::now() + wait;
        let attempts: Vec<Named> = beat.attempts.iter().filter_map(named).collect();
        renew(&self.app, &attempts).map_err(unavailable)?;
        loop {
            let heard = self.app.engine.bell.rings();
            let told = self.orders(&beat.boot, &attempts).map_err(unavailable)?;
            let is_urgent = told.iter().any(|it| it.order != Order::Continue);
            if is_urgent || Instant::now() >= deadline {
                return Ok(told);
            }
            std::thread::sleep(ORDERS_PAUSE);
            self.app.engine.bell.wait(heard, deadline);
        }
    }

    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<Order, LinkError> {
        let it = named(attempt).ok_or_else(unknown)?;
        let (key, offset) = self.app.engine.late.place(&self.app, &it, offset).map_err(unavailable)?;
        match self.app.logs.append(&key, offset, bytes) {
            Ok(Appended::Written { .. }) => Ok(Order::Continue),
            Ok(Appended::Gap { length }) => {
                Err(LinkError::Refused(format!("the log has {length} bytes so far, not {offset}")))
            }
            Err(error @ (LogError::Busy | LogError::Io(_) | LogError::Full)) => {
                Err(LinkError::Unavailable(error.to_string()))
            }
            // It will never take another byte.
            Err(error) => Err(LinkError::Refused(error.to_string())),
        }
    }

    fn report(&self, report: &Report) -> Result<Reported, LinkError> {
        let attempt = named(&report.attempt).ok_or_else(unknown)?;
        let log = key(&attempt);
        // What was printed is on the disk before its end is.
        if report.log_bytes > 0
            && let Err(error) = self.app.logs.flush(&log)
        {
            tracing::error!(%error, deployment = %attempt.deployment, "a log could not be flushed");
        }
        let next = report.next_nonce.clone().filter(|_| !self.app.shutdown.is_cancelled());
        let said = Said {
            attempt,
            ending: ending(&report.outcome),
            isolation: isolation(report.isolation),
            log_bytes: i64::try_from(report.log_bytes).unwrap_or(i64::MAX),
            next: next.map(|nonce| Next { nonce, boot: report.boot.clone(), labels: report.labels.clone() }),
        };
        let Stored { order, granted, goes_on } = store_report(&self.app, said).map_err(unavailable)?;
        // The next call goes on with it.
        if !goes_on {
            self.app.logs.seal_later(&log);
        }
        self.app.engine.late.forget(&self.app, &log);
        let next = match &granted {
            Some(granted) => self.assigned(granted).map_err(unavailable)?,
            None => None,
        };
        Ok(Reported { order: ordered(order), next })
    }

    fn checkout(&self, attempt: &AttemptRef, into: &Path) -> Result<(), LinkError> {
        let it = named(attempt).ok_or_else(unknown)?;
        let plan = self.plan_of(&it)?;
        let source = plan.source.as_ref().ok_or_else(unknown)?;
        let commit = Sha::parse(&source.commit).ok_or_else(unknown)?;
        let done = self.app.git.mirror(it.org, source.repository).checkout(&commit, into);
        done.map_err(|error| match error {
            GitError::Stopping | GitError::TooSlow(_) | GitError::Io { .. } => {
                LinkError::Unavailable(error.to_string())
            }
            _ => LinkError::Refused(error.to_string()),
        })
    }

    fn fetch_artifact(&self, attempt: &AttemptRef, name: &str, into: &Path) -> Result<(), LinkError> {
        let it = named(attempt).ok_or_else(unknown)?;
        let digest = self.artifact_of(&it, name)?;
        let done = self.app.artifacts.unpack(it.org, &digest, into);
        done.map_err(|error| LinkError::Refused(format!("artifact \"{name}\": {error}")))
    }

    fn fetch_registry(&self, attempt: &AttemptRef, digest: &str, into: &Path) -> Result<(), LinkError> {
        let it = named(attempt).ok_or_else(unknown)?;
        let plan = self.plan_of(&it)?;
        let mut custom =
            plan.stages.iter().flat_map(|stage| &stage.steps).filter_map(|it| it.custom.as_ref());
        // Whoever may run one deployment is not handed what another organization or pipeline has built.
        let Some(pinned) = custom.find(|pinned| pinned.digest == digest) else {
            return Err(LinkError::Refused("the deployment has no step of such a registry".into()));
        };
        let done = self.app.artifacts.unpack(it.org, digest, into);
        done.map_err(|error| {
            let text = format!("registry \"{}\": {error}", pinned.name);
            match error {
                ArtifactError::Io(_) | ArtifactError::Full => LinkError::Unavailable(text),
                _ => LinkError::Refused(text),
            }
        })
    }

    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        workspace: &Path,
        path: &str,
    ) -> Result<String, LinkError> {
        let it = named(attempt).ok_or_else(unknown)?;
        let kept = self.app.artifacts.keep(it.org, workspace, path);
        let kept = kept.map_err(|error| LinkError::Refused(format!("artifact \"{name}\": {error}")))?;
        Ok(kept.digest)
    }
}

impl Embedded {
    fn plan_of(&self, it: &Named) -> Result<Arc<berth_core::run::Plan>, LinkError> {
        let (plans, id) = (self.app.engine.plans().clone(), it.deployment);
        self.app.store.read_blocking(Some(it.org), move |db| plans.get(db, id)).map_err(unavailable)
    }

    /// What an earlier step of the same deployment kept under this name; in a rollback also what was there then.
    fn artifact_of(&self, it: &Named, name: &str) -> Result<String, LinkError> {
        let (id, wanted) = (it.deployment, name.to_owned());
        let found = self.app.store.read_blocking(Some(it.org), move |db| {
            let run = berth_store::records::run::by_id(db, id)?;
            let steps = run.into_iter().flat_map(|run| run.steps);
            match steps.rev().find_map(|step| step.artifacts.get(&wanted).cloned()) {
                Some(kept) => Ok::<_, AppError>(Some(kept)),
                None => kept_then(db, id, &wanted),
            }
        });
        let missing = || LinkError::Refused(format!("no step before it has kept an artifact \"{name}\""));
        found.map_err(unavailable)?.ok_or_else(missing)
    }
}

fn named(it: &AttemptRef) -> Option<Named> {
    Some(Named {
        org: it.organization_id.parse::<OrgId>().ok()?,
        deployment: it.deployment_id.parse().ok()?,
        step: it.step_id.parse().ok()?,
        number: it.number,
        nonce: it.nonce.clone(),
    })
}

pub(super) fn key(it: &Named) -> LogKey {
    let Named { org, deployment, step, number, .. } = *it;
    LogKey { org, deployment, step, attempt: number, stream: LogStream::Step }
}

fn unknown() -> LinkError {
    LinkError::Refused("there is no such attempt".into())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unavailable(error: AppError) -> LinkError {
    LinkError::Unavailable(format!("{error:?}"))
}

const fn ordered(order: Ordered) -> Order {
    match order {
        Ordered::Continue => Order::Continue,
        Ordered::Cancel => Order::Cancel,
        Ordered::Stale => Order::Stale,
    }
}

fn ending(outcome: &Outcome) -> Ending {
    Ending::Over(match outcome {
        Outcome::Succeeded { outputs, artifacts } => {
            Ended::Succeeded { outputs: outputs.clone(), artifacts: artifacts.clone() }
        }
        Outcome::Failed { cause, detail, exit_code } => {
            let cause = match cause {
                FailureCause::Exited | FailureCause::MissingArtifact => Cause::StepFailed,
                FailureCause::Killed => Cause::Killed,
                FailureCause::TimedOut => Cause::TimedOut,
                FailureCause::Invalid => Cause::NotRunnable,
            };
            Ended::Failed { failure: Failure { cause, detail: detail.clone() }, exit_code: *exit_code }
        }
        Outcome::Stopped => Ended::Stopped,
        Outcome::Interrupted => Ended::Interrupted,
        Outcome::NeverStarted { detail } => Ended::NeverStarted { detail: detail.clone() },
        Outcome::Unanswered { detail } => Ended::Unanswered { detail: detail.clone() },
        Outcome::Waiting { state, pause_ms } => {
            return Ending::Parked(Parking::Polls { state: state.clone(), pause_ms: *pause_ms });
        }
        Outcome::ApprovalRequired { context } => {
            return Ending::Parked(Parking::Asks { context: context.clone() });
        }
    })
}

const fn isolation(level: Isolation) -> &'static str {
    match level {
        Isolation::None => "none",
        Isolation::Process => "process",
        Isolation::Landlock => "landlock",
        Isolation::Bubblewrap => "bubblewrap",
    }
}
