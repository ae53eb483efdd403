//! Grant: ready steps are given to a runner, each in the transaction that makes it so.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::decision::Refusal;
use berth_core::deployment::{Cause, Failure};
use berth_core::environment::fence::Fence;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::run::grant::{GrantStep, grant};
use berth_core::run::{Attempt, Outcome, Plan, Run, StepRun, StepStatus, report, secrets_used};
use berth_core::time::Timestamp;
use berth_store::query::runs;
use berth_store::tables::secret;
use berth_store::{Context, Tx};

use super::gates;
use super::lost::LIVE_MAX;
use super::places::Places;
use super::whole::{Head, Whole};
use crate::credential::Redacted;
use crate::error::EngineError;
use crate::services::Services;
use crate::vault::{KeyError, Vault};

/// Deployments looked up in one go.
pub(super) const READY_MAX: i64 = 256;
/// And so often before the next look; more than an installation has ready at once.
pub(super) const PAGES_MAX: usize = 64;

/// What an attempt needs to know, as of its grant.
pub(super) struct Granted {
    pub(super) org: OrgId,
    pub(super) attempt: Attempt,
    /// Position in `run.steps`.
    pub(super) at: usize,
    pub(super) run: Run,
    pub(super) plan: Arc<Plan>,
    pub(super) facts: BTreeMap<String, String>,
    /// The environment it changes, and under which fence.
    pub(super) holder: Option<(EnvironmentId, Fence)>,
    pub(super) secrets: BTreeMap<SecretName, Redacted>,
    pub(super) now: Timestamp,
}

/// A runner that asks: how its attempts are marked, whose work it may have, the places it has, and what it can do.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) runner: &'a str,
    /// What it was told of its own silence.
    pub(super) lost_ms: Option<i64>,
    /// `None`: of every organization.
    pub(super) org: Option<OrgId>,
    pub(super) nonces: &'a [String],
    pub(super) labels: &'a [String],
    /// What the nonces have already, and nothing else: what they had may be over by now.
    pub(super) only_again: bool,
}

/// What a look has given away. A nonce that was used is gone, also where nothing came of it.
#[derive(Default)]
pub(super) struct Given {
    pub(super) granted: Vec<Granted>,
    pub(super) used: usize,
    /// What is ready in it is for runners with other labels.
    pub(super) is_for_others: bool,
}

/// One look at everything that is ready, page by page: what no place here is for keeps nobody else waiting.
pub(super) fn grant_ready(services: &Services, asking: &Asking<'_>) -> Result<Given, EngineError> {
    let mut given = again(services, asking)?;
    let mut places = Places::load(services, asking)?;
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after;
        let page = services.store.read_blocking(None, move |db| {
            let now = db.now();
            Ok::<_, EngineError>(runs::ready(db, now, from, READY_MAX)?)
        })?;
        after = page.last().map(|last| (last.ready_at, last.deployment));
        let is_last = page.len() < usize::try_from(READY_MAX).unwrap_or(usize::MAX);
        for ready in page {
            if given.used == asking.nonces.len() {
                return Ok(given);
            }
            let is_other = asking.org.is_some_and(|org| org != ready.org);
            let free = places.free(ready.org).min(asking.nonces.len() - given.used);
            if is_other || free == 0 || services.engine.unfit.is_known(&ready, asking.labels) {
                continue;
            }
            let asking = Asking { nonces: &asking.nonces[given.used..given.used + free], ..*asking };
            match grant_of(services, ready.org, ready.deployment, &asking) {
                Ok(more) if more.used == 0 => {
                    services.engine.unfit.note(&ready, asking.labels, more.is_for_others);
                }
                Ok(more) => {
                    given.granted.extend(more.granted);
                    given.used += more.used;
                    places.take(ready.org, more.used);
                }
                Err(error) => {
                    tracing::error!(?error, deployment = %ready.deployment, "a step could not be granted");
                }
            }
        }
        if is_last {
            break;
        }
    }
    Ok(given)
}

/// Attempts that these very nonces have already: the answer that told of them was lost.
pub(super) fn again(services: &Services, asking: &Asking<'_>) -> Result<Given, EngineError> {
    let runner = asking.runner.to_owned();
    let live = services
        .store
        .read_blocking(None, move |db| Ok::<_, EngineError>(runs::live_of(db, &runner, LIVE_MAX)?))?;
    let mut given = Given::default();
    for it in live.into_iter().filter(|it| asking.nonces.contains(&it.nonce)) {
        let nonces = [it.nonce];
        let again = Asking { nonces: &nonces, only_again: true, ..*asking };
        let more = grant_of(services, it.org, it.deployment, &again)?;
        given.granted.extend(more.granted);
    }
    // The other nonces are asked for with the next question.
    given.used = if given.granted.is_empty() { 0 } else { asking.nonces.len() };
    Ok(given)
}

pub(super) fn grant_of(
    services: &Services,
    org: OrgId,
    id: DeploymentId,
    asking: &Asking<'_>,
) -> Result<Given, EngineError> {
    let (plans, vault, nonces) =
        (services.engine.plans().clone(), services.vault.clone(), asking.nonces.to_vec());
    let (runner, labels, only_again) = (asking.runner.to_owned(), asking.labels.to_vec(), asking.only_again);
    let lost_ms = asking.lost_ms;
    let (given, run) = services.store.transact_blocking(Context::system(Some(org)), move |tx| {
        let Some(mut whole) = Whole::load(tx, &plans, id)? else { return Ok((Given::default(), None)) };
        let asking =
            Asking { runner: &runner, lost_ms, org: Some(org), nonces: &nonces, labels: &labels, only_again };
        let given = grant_in(tx, &mut whole, &vault, &asking)?;
        Ok::<_, EngineError>((given, Some(whole.run)))
    })?;
    run.into_iter().for_each(|run| services.engine.plans().committed(run));
    Ok(given)
}

/// As many steps of one deployment as may begin and find a place. The same nonce again is the same step again.
pub(super) fn grant_in(
    tx: &mut Tx<'_>,
    whole: &mut Whole,
    vault: &Vault,
    asking: &Asking<'_>,
) -> Result<Given, EngineError> {
    let mut given = Given::default();
    for nonce in asking.nonces {
        let has = |step: &Arc<StepRun>| step.live.as_ref().is_some_and(|live| live.nonce == *nonce);
        let (at, attempt) = match whole.run.steps.iter().position(has) {
            Some(at) => (at, whole.run.steps[at].live.clone()),
            None if asking.only_again => continue,
            None => {
                if !whole.goes_on() || !gates::may_begin(tx, whole)? {
                    break;
                }
                // While nothing new begins, what runs elsewhere is still looked at.
                let may = |at: &usize| whole.may_grant() || whole.run.steps[*at].is_polling();
                let fits = |at: &usize| may(at) && is_for(whole, *at, asking.labels);
                let Some(at) = whole.run.ready(tx.now()).into_iter().find(fits) else {
                    let is_ready = |at: &usize| whole.run.steps[*at].status == StepStatus::Ready;
                    let mut ready = (0..whole.run.steps.len()).filter(is_ready);
                    given.is_for_others = !ready.any(|at| is_for(whole, at, asking.labels));
                    break;
                };
                let (step, runner) = (whole.run.steps[at].id, asking.runner.to_owned());
                let (nonce, passes_gates) = (nonce.clone(), whole.head.passes_gates());
                let cmd = GrantStep { step, runner, nonce, lost_ms: asking.lost_ms, passes_gates };
                match grant(&whole.run, &whole.plan, &cmd, tx.now()) {
                    Ok(decision) => (at, Some(whole.apply(tx, decision)?)),
                    Err(Refusal::InvalidState(_)) => break,
                    Err(other) => return Err(other.into()),
                }
            }
        };
        let Some(attempt) = attempt else { break };
        given.used += 1;
        match secrets(tx, whole, vault, at, &attempt)? {
            Ok(secrets) => given.granted.push(Granted {
                org: tx.org()?,
                attempt,
                at,
                facts: facts(whole, at),
                holder: whole.head.holder(),
                run: whole.run.clone(),
                plan: whole.plan.clone(),
                secrets,
                now: tx.now(),
            }),
            // Nothing of it ever ran, and nothing will: the step ends here.
            Err(detail) => fail(tx, whole, &attempt, detail)?,
        }
    }
    Ok(given)
}

fn fail(tx: &mut Tx<'_>, whole: &mut Whole, attempt: &Attempt, detail: String) -> Result<(), EngineError> {
    let failure = Failure { cause: Cause::NotRunnable, detail };
    let outcome = Outcome::Failed { failure, exit_code: None };
    let decision = report::report(&whole.run, &whole.plan, attempt.step, &attempt.nonce, outcome, tx.now());
    whole.apply(tx, decision).map(drop)
}

/// Whether a runner with these labels may have the step.
pub fn is_for(whole: &Whole, at: usize, labels: &[String]) -> bool {
    let step = &whole.run.steps[at];
    let wanted = &whole.plan.stages[step.stage].steps[step.index].runs_on;
    wanted.iter().all(|label| labels.iter().any(|own| own == label.as_str()))
}

/// The values the step asks for, each reading on record. `Err` is for people.
fn secrets(
    tx: &mut Tx<'_>,
    whole: &Whole,
    vault: &Vault,
    at: usize,
    attempt: &Attempt,
) -> Result<Result<BTreeMap<SecretName, Redacted>, String>, EngineError> {
    let step = &whole.run.steps[at];
    let stage = &whole.plan.stages[step.stage];
    let mut found = BTreeMap::new();
    for name in secrets_used(&stage.steps[step.index]) {
        let Some(pinned) = stage.secrets.get(&name) else {
            return Ok(Err(format!("there was no secret {name} when the deployment began")));
        };
        let Some(secret) = secret::by_id(tx, pinned.id)? else {
            return Ok(Err(format!("the secret {name} was deleted after the deployment began")));
        };
        // The calls of one attempt are one reading.
        let revealed = match attempt.calls {
            1 => vault.reveal(tx, &secret, pinned.version),
            _ => vault.reveal_again(tx, &secret, pinned.version),
        };
        match revealed {
            Ok(value) => drop(found.insert(name, value)),
            Err(KeyError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%error, secret = %pinned.id, "a secret does not open");
                return Ok(Err(format!("the secret {name} does not open; the server's log says why")));
            }
        }
    }
    Ok(Ok(found))
}

/// What every step is told about itself.
fn facts(whole: &Whole, at: usize) -> BTreeMap<String, String> {
    let step = &whole.run.steps[at];
    let stage = &whole.plan.stages[step.stage];
    let mut facts = BTreeMap::new();
    let mut tell = |name: &str, value: String| drop(facts.insert(format!("BERTH_{name}"), value));
    tell("DEPLOYMENT_ID", whole.run.deployment.to_string());
    tell("PIPELINE_ID", whole.run.pipeline.to_string());
    tell("STAGE", stage.name.clone());
    tell("STEP", step.step.to_string());
    tell("STEP_ID", step.id.to_string());
    tell("ATTEMPT", step.tries.to_string());
    let (commit, number) = match &whole.head {
        Head::Environment { deployment, .. } => {
            tell("ENVIRONMENT", deployment.stage.to_string());
            tell("FENCE", deployment.fence.number().to_string());
            if let berth_core::deployment::Work::Session(session) = deployment.work {
                tell("SESSION_ID", session.to_string());
            }
            (deployment.commit.to_string(), deployment.number)
        }
        Head::Stages { rollout, .. } => (rollout.commit.to_string(), rollout.number),
    };
    tell("DEPLOYMENT_NUMBER", number.to_string());
    tell("COMMIT", whole.plan.source.as_ref().map_or(commit, |source| source.commit.clone()));
    facts
}
