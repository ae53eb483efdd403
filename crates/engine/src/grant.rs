//! Grants ready steps to runners. Each grant is one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::decision::CommandRefusal;
use berth_core::deployment::run::grant::{GrantStep, grant};
use berth_core::deployment::run::{
    Attempt, AttemptOutcome, Plan, Run, StepRun, StepRunStatus, report, secrets_used,
};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::environment::fence::Fence;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::time::Timestamp;
use berth_store::tables::{attempt, schedule, secret};
use berth_store::{Tx, TxContext};

use super::aggregate::DeploymentAggregate;
use super::gates;
use super::loaded::LoadedDeployment;
use super::lost_attempts::LIVE_MAX;
use super::slots::RunnerSlots;
use crate::credential::RedactedString;
use crate::error::EngineError;
use crate::id_tokens::{StepClaims, grant_claims};
use crate::services::Services;
use crate::vault::{KeyError, SecretVault};

/// Page size when listing deployments with ready steps.
pub(super) const READY_MAX: i64 = 256;
/// Maximum number of pages per pass. An installation never has this many ready deployments at once.
pub(super) const PAGES_MAX: usize = 64;

/// A granted attempt, with everything that is needed to build its assignment.
pub(super) struct GrantedAttempt {
    pub(super) org: OrgId,
    pub(super) attempt: Attempt,
    /// Index of the step in `run.steps`.
    pub(super) at: usize,
    pub(super) run: Run,
    pub(super) plan: Arc<Plan>,
    pub(super) facts: BTreeMap<String, String>,
    /// The environment that the attempt changes, and its fence.
    pub(super) holder: Option<(EnvironmentId, Fence)>,
    /// Whether the commit comes from a fork.
    pub(super) is_untrusted: bool,
    pub(super) secrets: BTreeMap<SecretName, RedactedString>,
    /// The claims of the ID token that the step asks for, or why it gets none.
    pub(super) id_token: Option<Result<StepClaims, String>>,
    pub(super) now: Timestamp,
}

/// A runner's request for work.
#[derive(Clone, Copy)]
pub(super) struct WorkRequest<'a> {
    pub(super) runner: &'a str,
    /// Time without a heartbeat after which the runner counts as lost. The server told the runner this value when the
    /// runner connected.
    pub(super) lost_ms: Option<i64>,
    /// The organization whose steps the runner may be granted. `None` means all organizations.
    pub(super) org: Option<OrgId>,
    pub(super) nonces: &'a [String],
    pub(super) labels: &'a [String],
    /// If set, no new attempts are granted, and only those that were already granted under these nonces are returned.
    /// They may have ended in the meantime.
    pub(super) only_existing: bool,
}

/// The result of a request for work. `used` counts every nonce that an attempt was created for, even if the attempt's
/// step could not start.
#[derive(Default)]
pub(super) struct GrantResult {
    pub(super) granted: Vec<GrantedAttempt>,
    pub(super) used: usize,
    /// All ready steps of the deployment require labels that this runner does not have.
    pub(super) is_for_others: bool,
}

/// Grants ready steps to a runner. Goes through all ready steps page by page, so that steps which this runner cannot
/// run do not block later ones.
pub(super) fn grant_ready(services: &Services, asking: &WorkRequest<'_>) -> Result<GrantResult, EngineError> {
    let mut given = find_granted(services, asking)?;
    let mut places = RunnerSlots::load(services, asking)?;
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after;
        let page = services.store.read_blocking(None, move |db| {
            let now = db.now();
            Ok::<_, EngineError>(schedule::list_ready(db, now, from, READY_MAX)?)
        })?;
        after = page.last().map(|last| (last.ready_at, last.deployment));
        let is_last = page.len() < usize::try_from(READY_MAX).unwrap_or(usize::MAX);
        for ready in page {
            if given.used == asking.nonces.len() {
                return Ok(given);
            }
            let is_other = asking.org.is_some_and(|org| org != ready.org);
            let free = places.free(ready.org).min(asking.nonces.len() - given.used);
            if is_other || free == 0 || services.engine.unfit.contains(&ready, asking.labels) {
                continue;
            }
            let asking = WorkRequest { nonces: &asking.nonces[given.used..given.used + free], ..*asking };
            match grant_from_deployment(services, ready.org, ready.deployment, &asking) {
                Ok(more) if more.used == 0 => {
                    services.engine.unfit.insert(&ready, asking.labels, more.is_for_others);
                }
                Ok(more) => {
                    given.granted.extend(more.granted);
                    given.used += more.used;
                    places.take(ready.org, more.used);
                }
                Err(error) => {
                    tracing::error!(?error, deployment = %ready.deployment, "granting a step failed");
                }
            }
        }
        if is_last {
            break;
        }
    }
    Ok(given)
}

/// Returns the attempts that were already granted under these nonces. The runner asks again if it did not receive the
/// response.
pub(super) fn find_granted(
    services: &Services,
    asking: &WorkRequest<'_>,
) -> Result<GrantResult, EngineError> {
    let runner = asking.runner.to_owned();
    let live = services.store.read_blocking(None, move |db| {
        Ok::<_, EngineError>(attempt::list_live_of_runner(db, &runner, LIVE_MAX)?)
    })?;
    let mut given = GrantResult::default();
    for it in live.into_iter().filter(|it| asking.nonces.contains(&it.nonce)) {
        let nonces = [it.nonce];
        let again = WorkRequest { nonces: &nonces, only_existing: true, ..*asking };
        let more = grant_from_deployment(services, it.org, it.deployment, &again)?;
        given.granted.extend(more.granted);
    }
    // If any attempt was found, count all nonces as used. The runner asks for more work in its next request.
    given.used = if given.granted.is_empty() { 0 } else { asking.nonces.len() };
    Ok(given)
}

pub(super) fn grant_from_deployment(
    services: &Services,
    org: OrgId,
    id: DeploymentId,
    asking: &WorkRequest<'_>,
) -> Result<GrantResult, EngineError> {
    let (plans, vault, nonces) =
        (services.engine.run_cache().clone(), services.vault.clone(), asking.nonces.to_vec());
    let (runner, labels, only_again) =
        (asking.runner.to_owned(), asking.labels.to_vec(), asking.only_existing);
    let lost_ms = asking.lost_ms;
    let (given, run) = services.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, id)? else {
            return Ok((GrantResult::default(), None));
        };
        let asking = WorkRequest {
            runner: &runner,
            lost_ms,
            org: Some(org),
            nonces: &nonces,
            labels: &labels,
            only_existing: only_again,
        };
        let given = grant_in(tx, &mut aggregate, &vault, &asking)?;
        Ok::<_, EngineError>((given, Some(aggregate.run)))
    })?;
    run.into_iter().for_each(|run| services.engine.run_cache().cache_run(run));
    Ok(given)
}

/// Grants up to one step of the deployment for each nonce. Idempotent: if an attempt was already granted under a nonce,
/// that attempt is returned.
pub(super) fn grant_in(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    vault: &SecretVault,
    asking: &WorkRequest<'_>,
) -> Result<GrantResult, EngineError> {
    let mut given = GrantResult::default();
    for nonce in asking.nonces {
        let has = |step: &Arc<StepRun>| step.live.as_ref().is_some_and(|live| live.nonce == *nonce);
        let existing = aggregate.run.steps.iter().position(has);
        let (at, attempt) = match existing {
            Some(at) => (at, aggregate.run.steps[at].live.clone()),
            None if asking.only_existing => continue,
            None => {
                if !aggregate.can_proceed() || !gates::check_gates(tx, aggregate)? {
                    break;
                }
                // While the pipeline is paused, only custom steps that are already polling are granted.
                let may = |at: &usize| aggregate.may_grant() || aggregate.run.steps[*at].is_polling();
                let fits = |at: &usize| may(at) && matches_labels(aggregate, *at, asking.labels);
                let Some(at) = aggregate.run.ready_steps(tx.now()).into_iter().find(fits) else {
                    let is_ready = |at: &usize| aggregate.run.steps[*at].status == StepRunStatus::Ready;
                    let mut ready = (0..aggregate.run.steps.len()).filter(is_ready);
                    given.is_for_others = !ready.any(|at| matches_labels(aggregate, at, asking.labels));
                    break;
                };
                let (step, runner) = (aggregate.run.steps[at].id, asking.runner.to_owned());
                let (nonce, passes_gates) = (nonce.clone(), aggregate.deployment.has_bypass());
                let cmd = GrantStep { step, runner, nonce, lost_ms: asking.lost_ms, passes_gates };
                match grant(&aggregate.run, &aggregate.plan, &cmd, tx.now()) {
                    Ok(decision) => (at, Some(aggregate.apply(tx, decision)?)),
                    Err(CommandRefusal::InvalidState(_)) => break,
                    Err(other) => return Err(other.into()),
                }
            }
        };
        let Some(attempt) = attempt else { break };
        given.used += 1;
        match reveal_secrets(tx, aggregate, vault, at, &attempt)? {
            Ok(secrets) => given.granted.push(GrantedAttempt {
                org: tx.org()?,
                at,
                facts: berth_variables(aggregate, at),
                holder: aggregate.deployment.environment_fence(),
                is_untrusted: aggregate.deployment.is_untrusted(),
                run: aggregate.run.clone(),
                plan: aggregate.plan.clone(),
                id_token: grant_claims(tx, aggregate, at, &attempt, existing.is_some())?,
                secrets,
                attempt,
                now: tx.now(),
            }),
            // The attempt has not reached a runner, so the step can safely fail here.
            Err(detail) => fail(tx, aggregate, &attempt, detail)?,
        }
    }
    Ok(given)
}

fn fail(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    attempt: &Attempt,
    detail: String,
) -> Result<(), EngineError> {
    let failure = ExecutionFailure { cause: FailureCode::NotRunnable, detail };
    let outcome = AttemptOutcome::Failed { failure, exit_code: None };
    let decision =
        report::report(&aggregate.run, &aggregate.plan, attempt.step, &attempt.nonce, outcome, tx.now());
    aggregate.apply(tx, decision).map(drop)
}

/// Whether a runner with these labels may run the step.
pub fn matches_labels(aggregate: &DeploymentAggregate, at: usize, labels: &[String]) -> bool {
    let step = &aggregate.run.steps[at];
    let wanted = &aggregate.plan.stages[step.stage].steps[step.index].runs_on;
    wanted.iter().all(|label| labels.iter().any(|own| own == label.as_str()))
}

/// Decrypts the secrets of the step. Each read records an event. The text of the inner error is shown to users.
fn reveal_secrets(
    tx: &mut Tx<'_>,
    aggregate: &DeploymentAggregate,
    vault: &SecretVault,
    at: usize,
    attempt: &Attempt,
) -> Result<Result<BTreeMap<SecretName, RedactedString>, String>, EngineError> {
    let step = &aggregate.run.steps[at];
    let stage = &aggregate.plan.stages[step.stage];
    let mut found = BTreeMap::new();
    for name in secrets_used(&stage.steps[step.index]) {
        if aggregate.deployment.is_untrusted() {
            return Ok(Err(format!(
                "the step uses the secret {name}, and steps that run the commit of a fork get no secrets"
            )));
        }
        let Some(pinned) = stage.secrets.get(&name) else {
            return Ok(Err(format!("there was no secret {name} when the deployment began")));
        };
        let Some(secret) = secret::by_id(tx, pinned.id)? else {
            return Ok(Err(format!("the secret {name} was deleted after the deployment began")));
        };
        // All calls of a custom step within one attempt count as a single read of the secret.
        let revealed = match attempt.calls {
            1 => vault.reveal(tx, &secret, pinned.version),
            _ => vault.reveal_again(tx, &secret, pinned.version),
        };
        match revealed {
            Ok(value) => drop(found.insert(name, value)),
            Err(KeyError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%error, secret = %pinned.id, "decrypting a secret failed");
                return Ok(Err(format!("the secret {name} cannot be decrypted; the server log says why")));
            }
        }
    }
    Ok(Ok(found))
}

/// Returns the `BERTH_*` environment variables of a step.
fn berth_variables(aggregate: &DeploymentAggregate, at: usize) -> BTreeMap<String, String> {
    let step = &aggregate.run.steps[at];
    let stage = &aggregate.plan.stages[step.stage];
    let mut facts = BTreeMap::new();
    let mut tell = |name: &str, value: String| drop(facts.insert(format!("BERTH_{name}"), value));
    tell("DEPLOYMENT_ID", aggregate.run.deployment.to_string());
    tell("PIPELINE_ID", aggregate.run.pipeline.to_string());
    tell("STAGE", stage.name.clone());
    tell("STEP", step.step.to_string());
    tell("STEP_ID", step.id.to_string());
    tell("ATTEMPT", step.tries.to_string());
    let (commit, number) = match &aggregate.deployment {
        LoadedDeployment::Environment { deployment, .. } => {
            tell("ENVIRONMENT", deployment.target.name.to_string());
            tell("FENCE", deployment.target.fence.number().to_string());
            if let berth_core::deployment::DeploymentPurpose::Session(session) = deployment.target.purpose {
                tell("SESSION_ID", session.to_string());
            }
            (deployment.commit.to_string(), deployment.number)
        }
        LoadedDeployment::Stages { deployment, .. } => (deployment.commit.to_string(), deployment.number),
    };
    tell("DEPLOYMENT_NUMBER", number.to_string());
    tell("COMMIT", aggregate.plan.source.as_ref().map_or(commit, |source| source.commit.clone()));
    facts
}
