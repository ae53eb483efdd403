//! Grant: ready steps are given to a runner, each in the transaction that makes it so.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::decision::Refusal;
use berth_core::deployment::{Cause, Failure};
use berth_core::id::OrgId;
use berth_core::pipeline::grammar::SecretName;
use berth_core::run::grant::{GrantStep, grant};
use berth_core::run::{Attempt, Outcome, Plan, Run, report, secrets_used};
use berth_store::query::runs;
use berth_store::records::secret;
use berth_store::{Context, Tx};

use super::whole::{Head, Whole};
use crate::app::App;
use crate::credential::Redacted;
use crate::error::AppError;
use crate::vault::Vault;

/// Deployments looked at in one go, more than there are places: some may want another runner.
const READY_MAX: i64 = 256;

/// What an attempt needs to know, as of its grant.
pub(super) struct Granted {
    pub(super) org: OrgId,
    pub(super) attempt: Attempt,
    /// Position in `run.steps`.
    pub(super) at: usize,
    pub(super) run: Run,
    pub(super) plan: Arc<Plan>,
    pub(super) facts: BTreeMap<String, String>,
    pub(super) secrets: BTreeMap<SecretName, Redacted>,
}

/// A runner that asks: its name, the places it has, and what it can do.
pub(super) struct Asking<'a> {
    pub(super) boot: &'a str,
    pub(super) nonces: &'a [String],
    pub(super) labels: &'a [String],
}

/// One look at everything that is ready.
pub(super) fn grant_ready(app: &App, asking: &Asking<'_>) -> Result<Vec<Granted>, AppError> {
    let found = app.store.read_blocking(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(runs::ready(db, now, READY_MAX)?)
    })?;
    let mut granted = Vec::new();
    for (org, id) in found {
        let nonces = asking.nonces[granted.len()..].to_vec();
        if nonces.is_empty() {
            break;
        }
        let (plans, vault) = (app.engine.plans().clone(), app.vault.clone());
        let (boot, labels) = (asking.boot.to_owned(), asking.labels.to_vec());
        let more = app.store.transact_blocking(Context::system(Some(org)), move |tx| {
            let Some(mut whole) = Whole::load(tx, &plans, id)? else { return Ok(Vec::new()) };
            let asking = Asking { boot: &boot, nonces: &nonces, labels: &labels };
            grant_in(tx, &mut whole, &vault, &asking)
        });
        match more {
            Ok(more) => granted.extend(more),
            Err(error) => tracing::error!(?error, deployment = %id, "a step could not be granted"),
        }
    }
    Ok(granted)
}

/// As many steps of one deployment as may begin and find a place.
pub(super) fn grant_in(
    tx: &mut Tx<'_>,
    whole: &mut Whole,
    vault: &Vault,
    asking: &Asking<'_>,
) -> Result<Vec<Granted>, AppError> {
    let mut granted = Vec::new();
    for nonce in asking.nonces {
        if !whole.may_grant() {
            break;
        }
        let fits = |at: &usize| is_for(whole, *at, asking.labels);
        let Some(at) = whole.run.ready(tx.now()).into_iter().find(fits) else { break };
        let cmd =
            GrantStep { step: whole.run.steps[at].id, runner: asking.boot.into(), nonce: nonce.clone() };
        let attempt = match grant(&whole.run, &whole.plan, &cmd, tx.now()) {
            Ok(decision) => whole.apply(tx, decision)?,
            Err(Refusal::InvalidState(_)) => break,
            Err(other) => return Err(other.into()),
        };
        match secrets(tx, whole, vault, at)? {
            Ok(secrets) => granted.push(Granted {
                org: tx.org()?,
                attempt,
                at,
                facts: facts(whole, at),
                run: whole.run.clone(),
                plan: whole.plan.clone(),
                secrets,
            }),
            // Nothing of it ever ran, and nothing will: the step ends here.
            Err(detail) => fail(tx, whole, &attempt, detail)?,
        }
    }
    Ok(granted)
}

fn fail(tx: &mut Tx<'_>, whole: &mut Whole, attempt: &Attempt, detail: String) -> Result<(), AppError> {
    let failure = Failure { cause: Cause::NotRunnable, detail };
    let outcome = Outcome::Failed { failure, exit_code: None };
    let decision = report::report(&whole.run, &whole.plan, attempt.step, &attempt.nonce, outcome, tx.now());
    whole.apply(tx, decision).map(drop)
}

/// Whether a runner with these labels may have the step.
pub(crate) fn is_for(whole: &Whole, at: usize, labels: &[String]) -> bool {
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
) -> Result<Result<BTreeMap<SecretName, Redacted>, String>, AppError> {
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
        found.insert(name, vault.reveal(tx, &secret, pinned.version)?);
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
