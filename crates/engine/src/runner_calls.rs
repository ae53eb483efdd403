//! Operations of the runner protocol, shared by the embedded runner (`link`) and remote runners (`remote`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_api::runner::{
    AttemptAssignment, AttemptInstruction, AttemptOrder, AttemptRef, FailureCause, LinkError, ReportReceipt,
    StepReport, StepRunOutcome,
};
use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::run::{AttemptOutcome, Plan, UnfinishedResponse};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::environment::fence::Fence;
use berth_core::id::OrgId;
use berth_core::runner::{EXPOSED_BYTES_MAX, EXPOSED_MAX};
use berth_store::tables::attempt;
use berth_store::tables::attempt::AttemptDetails;
use berth_store::tables::attempt::LiveAttempt;
use berth_store::tables::schedule;

use super::assign::assign;
use super::grant::{GrantedAttempt, WorkRequest, grant_ready};
use super::lost_attempts::LIVE_MAX;
use super::remote::artifact_link_error;
use super::report::{
    AttemptLocator, CallEnding, CallReport, NextStepRequest, ReportResult, order, store_report,
};
use super::rollback::rollback_artifact;
use crate::artifacts::ArtifactError;
use crate::error::EngineError;
use crate::git::{CheckoutRemote, CommitHash, GitError};
use crate::id_tokens::{self, IdTokenError};
use crate::logs::{AppendResult, LogError, LogKey, LogStream};
use crate::services::Services;
use crate::wire::{domain_network, isolation};

/// Minimum interval between two queries for orders, to limit the load when many notifications arrive.
pub(super) const ORDERS_PAUSE: Duration = Duration::from_millis(10);
/// Poll interval, in case a notification was missed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polls for work once. Returns `Some` if any nonce was used, even if no assignment resulted from it.
pub(super) fn poll_once(
    services: &Services,
    asking: &WorkRequest<'_>,
) -> Result<Option<Vec<AttemptAssignment>>, EngineError> {
    let given = grant_ready(services, asking)?;
    let mut work = Vec::with_capacity(given.granted.len());
    for it in &given.granted {
        work.extend(build_assignment(services, it)?);
    }
    Ok((given.used > 0).then_some(work))
}

/// Returns the time until the next poll: until the next step becomes ready, but at most [`POLL_INTERVAL`].
pub(super) fn next_poll_delay(services: &Services) -> Duration {
    let next = services.store.read_blocking(None, |db| {
        let now = db.now();
        Ok::<_, EngineError>(schedule::find_next_ready(db, now)?.map(|at| at.as_micros() - now.as_micros()))
    });
    let micros = next.ok().flatten().and_then(|micros| u64::try_from(micros).ok());
    micros.map_or(POLL_INTERVAL, |micros| POLL_INTERVAL.min(Duration::from_micros(micros)))
}

/// Builds the assignment of a granted step. If the step cannot start, records its end and returns `None`; the runner
/// never receives it.
pub(super) fn build_assignment(
    services: &Services,
    granted: &GrantedAttempt,
) -> Result<Option<AttemptAssignment>, EngineError> {
    let not_runnable = |detail| {
        let failure = ExecutionFailure { cause: FailureCode::NotRunnable, detail };
        AttemptOutcome::Failed { failure, exit_code: None }
    };
    let assigned = assign(granted).map_err(not_runnable);
    let assigned = assigned.and_then(|mut assignment| {
        if let Some(call) = assignment.custom.as_mut().filter(|_| granted.attempt.calls > 1) {
            // If the log cannot be read now, the call is reported as never started and can be repeated later.
            call.log_bytes = log_length(services, granted).map_err(AttemptOutcome::never_started)?;
        }
        match id_tokens::add_token(services, granted, &mut assignment) {
            Ok(()) => Ok(assignment),
            Err(IdTokenError::Refused(detail)) => Err(not_runnable(detail)),
            Err(IdTokenError::Engine(error)) => {
                tracing::error!(?error, deployment = %granted.run.deployment, "signing an ID token failed");
                Err(not_runnable("its ID token cannot be signed; the server log says why".to_owned()))
            }
        }
    });
    match assigned {
        Ok(assignment) => Ok(Some(assignment)),
        Err(ended) => {
            let said = CallReport {
                attempt: AttemptLocator {
                    org: granted.org,
                    deployment: granted.run.deployment,
                    step: granted.attempt.step,
                    number: granted.attempt.number,
                    nonce: granted.attempt.nonce.clone(),
                },
                ending: CallEnding::Over(ended),
                note: AttemptDetails { isolation: "none", network: None, exposed: Vec::new(), log_bytes: 0 },
                next: None,
            };
            store_report(services, said).map(|_| None)
        }
    }
}

/// Returns the length of the attempt's log. Reads it from the log itself, because a lost call may have written more
/// than was ever reported.
fn log_length(services: &Services, granted: &GrantedAttempt) -> Result<u64, String> {
    let (step, attempt) = (granted.attempt.step, granted.attempt.number);
    let (org, deployment, stream) = (granted.org, granted.run.deployment, LogStream::Step);
    let key = LogKey { org, deployment, step, attempt, stream };
    let log = services.logs.open(&key).map_err(|error| format!("its log cannot be read: {error}"))?;
    Ok(log.map_or(0, |log| log.length()))
}

/// Returns the orders for the attempts listed by the runner, and for those granted to it since. The latter are included
/// so that their cancellation does not have to wait for the next heartbeat.
pub(super) fn orders(
    services: &Services,
    runner: &str,
    attempts: &[AttemptLocator],
) -> Result<Vec<AttemptInstruction>, EngineError> {
    let plans = services.engine.run_cache();
    let runner = runner.to_owned();
    let live = services.store.read_blocking(None, move |db| {
        Ok::<_, EngineError>(attempt::list_live_of_runner(db, &runner, LIVE_MAX)?)
    })?;
    let is_named = |it: &LiveAttempt| attempts.iter().any(|named| named.nonce == it.nonce);
    let since = live.into_iter().filter(|it| !is_named(it)).map(AttemptLocator::from);
    let all: Vec<AttemptLocator> = attempts.iter().cloned().chain(since).collect();
    let mut told = Vec::with_capacity(all.len());
    for it in &all {
        let (plans, named) = (plans.clone(), it.clone());
        let (found, reason) =
            services.store.read_blocking(Some(it.org), move |db| order(db, &plans, &named))?;
        told.push(AttemptInstruction { nonce: it.nonce.clone(), order: to_wire_order(found), reason });
    }
    Ok(told)
}

pub(super) fn append(
    services: &Services,
    it: &AttemptLocator,
    offset: u64,
    bytes: &[u8],
) -> Result<AttemptOrder, LinkError> {
    let sent = offset;
    let (key, offset) = services.engine.late.log_position(services, it, offset).map_err(unavailable)?;
    match services.logs.append(&key, offset, bytes) {
        Ok(AppendResult::Written { .. }) => Ok(AttemptOrder::Continue),
        // After a takeover, the runner's offsets differ from those of the log.
        Ok(AppendResult::Gap { length }) => Err(LinkError::LogGap { length: length + (sent - offset) }),
        Err(error @ (LogError::Busy | LogError::Io(_) | LogError::Full | LogError::Storage(_))) => {
            Err(LinkError::Unavailable(error.to_string()))
        }
        // All other errors are permanent.
        Err(error) => Err(LinkError::Refused(error.to_string())),
    }
}

/// Stores a runner's report. Returns the response for the runner. If the runner has seen a fence that this server does
/// not know, returns that fence as well.
pub(super) fn report(
    services: &Services,
    attempt: AttemptLocator,
    report: &StepReport,
    next: Option<NextStepRequest>,
) -> Result<(ReportReceipt, Option<Fence>), LinkError> {
    let log = log_key(&attempt);
    // Fsync the log before the end of the attempt is committed.
    if report.log_bytes > 0
        && let Err(error) = services.logs.flush(&log)
    {
        tracing::error!(%error, deployment = %attempt.deployment, "flushing a log failed");
    }
    let said = CallReport {
        attempt,
        ending: to_call_ending(&report.outcome),
        note: AttemptDetails {
            isolation: isolation(report.isolation),
            network: report.network.map(domain_network),
            exposed: valid_exposed_paths(&report.exposed),
            log_bytes: i64::try_from(report.log_bytes).unwrap_or(i64::MAX),
        },
        next: next.filter(|_| !services.shutdown.is_cancelled()),
    };
    let ReportResult { order, is_unfinished: goes_on, lost_fence, next } =
        store_report(services, said).map_err(unavailable)?;
    // Seal the log once the attempt has ended. If it has not, the next call of the custom step continues the log. A
    // step without output only has a log if a client follows it.
    if !goes_on && (report.log_bytes > 0 || services.logs.is_open(&log)) {
        services.logs.seal_later(&log);
    }
    services.engine.late.remove_log(services, &log);
    let next =
        next.map(|granted| build_assignment(services, &granted)).transpose().map_err(unavailable)?.flatten();
    Ok((ReportReceipt { order: to_wire_order(order), next }, lost_fence))
}

/// Unpacks the pinned commit and its submodules into an empty directory.
pub(super) fn checkout(services: &Services, it: &AttemptLocator, into: &Path) -> Result<(), LinkError> {
    let plan = load_plan(services, it)?;
    let source = plan.source.as_ref().ok_or_else(unknown_attempt)?;
    let commit = CommitHash::parse(&source.commit).ok_or_else(unknown_attempt)?;
    let (mirror, id) = (services.git.mirror(it.org, source.repository), source.repository);
    let deployment = it.deployment;
    let found = services.store.read_blocking(Some(it.org), move |db| {
        let found = berth_store::tables::repository::by_id(db, id)?;
        let of = berth_store::tables::deployment::by_id(db, deployment)?;
        Ok::<_, EngineError>((found, of.is_none_or(|it| it.target.is_untrusted())))
    });
    let (found, is_untrusted) = found.map_err(unavailable)?;
    let done = match found {
        Some(repository) => {
            let credential = || {
                // A fork could name any repository that the credential can read as its submodule.
                if is_untrusted {
                    return Ok(None);
                }
                let read = services.repository_credential_blocking(it.org, &repository);
                let read = read.map_err(|error| {
                    tracing::error!(?error, repository = %repository.id, "reading a git credential failed");
                    GitError::Failed("the repository's credential cannot be read".into())
                });
                read?.map_err(GitError::Refused)
            };
            let access = &services.config.git_access;
            let from = CheckoutRemote { url: &repository.url, access, credential: &credential };
            let mirror = mirror.with_partial(repository.is_partial);
            mirror.checkout_complete(from, &commit, into)
        }
        // The repository was removed. Its mirror may still have the commit.
        None => mirror.checkout(&commit, into),
    };
    done.map_err(|error| match error {
        GitError::Stopping | GitError::TooSlow(_) | GitError::Io { .. } => {
            LinkError::Unavailable(error.to_string())
        }
        _ => LinkError::Refused(error.to_string()),
    })
}

/// Returns the name of the registry with this digest, if the attempt is allowed to read that registry.
pub(super) fn registry_name(
    services: &Services,
    it: &AttemptLocator,
    digest: &str,
) -> Result<String, LinkError> {
    let plan = load_plan(services, it)?;
    let mut custom = plan.stages.iter().flat_map(|stage| &stage.steps).filter_map(|it| it.custom.as_ref());
    // A runner may only read the registries that its deployment's plan uses, not those of other pipelines or
    // organizations.
    match custom.find(|pinned| pinned.digest == digest) {
        Some(pinned) => Ok(pinned.name.to_string()),
        None => Err(LinkError::Refused("the deployment has no step of such a registry".into())),
    }
}

/// Returns the workspace path at which a step leaves an artifact.
pub(super) fn artifact_path(
    services: &Services,
    it: &AttemptLocator,
    name: &str,
) -> Result<String, LinkError> {
    let plan = load_plan(services, it)?;
    let id = it.deployment;
    let run = services.store.read_blocking(Some(it.org), move |db| {
        Ok::<_, EngineError>(berth_store::tables::run::by_id(db, id)?)
    });
    let run = run.map_err(unavailable)?.ok_or_else(unknown_attempt)?;
    let step = run.steps.iter().find(|step| step.id == it.step).ok_or_else(unknown_attempt)?;
    let declared = &plan.step(step).artifacts;
    let found =
        declared.iter().find(|(declared, _)| declared.as_str() == name).map(|(_, it)| it.path.clone());
    found.ok_or_else(|| LinkError::Refused("the step declares no such artifact".into()))
}

pub(super) fn load_plan(services: &Services, it: &AttemptLocator) -> Result<Arc<Plan>, LinkError> {
    let (plans, id) = (services.engine.run_cache().clone(), it.deployment);
    services.store.read_blocking(Some(it.org), move |db| plans.plan(db, id)).map_err(unavailable)
}

/// Returns the digest of an artifact that an earlier step of the deployment stored. For a rollback, this includes
/// artifacts of the deployment that it returns to.
pub(super) fn artifact_digest(
    services: &Services,
    it: &AttemptLocator,
    name: &str,
) -> Result<String, LinkError> {
    let (id, wanted) = (it.deployment, name.to_owned());
    let found = services.store.read_blocking(Some(it.org), move |db| {
        let run = berth_store::tables::run::by_id(db, id)?;
        let steps = run.into_iter().flat_map(|run| run.steps);
        match steps.rev().find_map(|step| step.artifacts.get(&wanted).cloned()) {
            Some(kept) => Ok::<_, EngineError>(Some(kept)),
            None => rollback_artifact(db, id, &wanted),
        }
    });
    let missing = || LinkError::Refused(format!("no step before it has kept an artifact \"{name}\""));
    found.map_err(unavailable)?.ok_or_else(missing)
}

pub(super) fn parse_attempt(it: &AttemptRef) -> Option<AttemptLocator> {
    Some(AttemptLocator {
        org: it.organization_id.parse::<OrgId>().ok()?,
        deployment: it.deployment_id.parse().ok()?,
        step: it.step_id.parse().ok()?,
        number: it.number,
        nonce: it.nonce.clone(),
    })
}

pub(super) fn log_key(it: &AttemptLocator) -> LogKey {
    let AttemptLocator { org, deployment, step, number, .. } = *it;
    LogKey { org, deployment, step, attempt: number, stream: LogStream::Step }
}

pub(super) fn unknown_attempt() -> LinkError {
    LinkError::Refused("there is no such attempt".into())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn unavailable(error: EngineError) -> LinkError {
    LinkError::Unavailable(format!("{error:?}"))
}

const fn to_wire_order(order: RunnerOrder) -> AttemptOrder {
    match order {
        RunnerOrder::Continue => AttemptOrder::Continue,
        RunnerOrder::Cancel => AttemptOrder::Cancel,
        RunnerOrder::Stale => AttemptOrder::Stale,
    }
}

fn to_call_ending(outcome: &StepRunOutcome) -> CallEnding {
    CallEnding::Over(match outcome {
        StepRunOutcome::Succeeded { outputs, artifacts } => {
            AttemptOutcome::Succeeded { outputs: outputs.clone(), artifacts: artifacts.clone() }
        }
        StepRunOutcome::Failed { cause, detail, exit_code } => {
            let cause = match cause {
                FailureCause::Exited | FailureCause::MissingArtifact => FailureCode::StepFailed,
                FailureCause::Killed => FailureCode::Killed,
                FailureCause::TimedOut => FailureCode::TimedOut,
                FailureCause::Invalid => FailureCode::NotRunnable,
            };
            AttemptOutcome::Failed {
                failure: ExecutionFailure { cause, detail: detail.clone() },
                exit_code: *exit_code,
            }
        }
        StepRunOutcome::Stopped => AttemptOutcome::Stopped,
        StepRunOutcome::Interrupted => AttemptOutcome::Interrupted,
        StepRunOutcome::NeverStarted { detail, known_fence } => AttemptOutcome::NeverStarted {
            detail: detail.clone(),
            known_fence: known_fence.and_then(Fence::from_untrusted),
        },
        StepRunOutcome::Unanswered { detail } => AttemptOutcome::Unanswered { detail: detail.clone() },
        StepRunOutcome::Waiting { state, pause_ms } => {
            return CallEnding::Parked(UnfinishedResponse::Polls {
                state: state.clone(),
                pause_ms: *pause_ms,
            });
        }
        StepRunOutcome::ApprovalRequired { context } => {
            return CallEnding::Parked(UnfinishedResponse::Asks { context: context.clone() });
        }
    })
}

/// Returns the exposed paths that a runner reported, without those that are too long, contain control characters or
/// exceed the maximum number. Runners are not trusted.
pub fn valid_exposed_paths(said: &[String]) -> Vec<String> {
    let fits = |path: &&String| path.len() <= EXPOSED_BYTES_MAX && !path.chars().any(char::is_control);
    said.iter().filter(fits).take(EXPOSED_MAX).cloned().collect()
}

/// Checks that every reported artifact is declared by the step and was uploaded.
pub(super) fn check_artifacts(
    services: &Services,
    it: &AttemptLocator,
    outcome: &StepRunOutcome,
) -> Result<(), LinkError> {
    let StepRunOutcome::Succeeded { artifacts, .. } = outcome else { return Ok(()) };
    for (name, digest) in artifacts {
        artifact_path(services, it, name)?;
        if !services.artifacts.contains(it.org, digest).map_err(artifact_link_error)? {
            return Err(artifact_link_error(ArtifactError::Unknown(digest.clone())));
        }
    }
    Ok(())
}
