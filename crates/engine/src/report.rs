//! Records reports of runners and grants the next step of the deployment in the same transaction.

use std::collections::BTreeMap;

use berth_core::deployment::environment::report::Order;
use berth_core::deployment::run::{Outcome, Parking, Run, park, report};
use berth_core::environment::fence::Fence;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_store::tables::attempt;
use berth_store::tables::attempt::AttemptDetails;
use berth_store::tables::attempt::LiveAttempt;
use berth_store::{Context, Read, Tx};

use super::aggregate::DeploymentAggregate;
use super::grant::{Asking, Granted, grant_in};
use super::loaded::LoadedDeployment;
use super::plans::Plans;
use crate::error::EngineError;
use crate::services::Services;

/// An attempt as a runner identifies it. Only the nonce is trusted; the other fields only locate the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) org: OrgId,
    pub(super) deployment: DeploymentId,
    pub(super) step: StepRunId,
    pub(super) number: u32,
    pub(super) nonce: String,
}

impl From<LiveAttempt> for Named {
    fn from(it: LiveAttempt) -> Self {
        let LiveAttempt { org, deployment, step, number, nonce, .. } = it;
        Self { org, deployment, step, number, nonce }
    }
}

pub(super) struct Said {
    pub(super) attempt: Named,
    pub(super) ending: Ending,
    pub(super) note: AttemptDetails,
    /// The runner's request for the next step.
    pub(super) next: Option<Next>,
}

/// How a call ended.
pub(super) enum Ending {
    Over(Outcome),
    /// A custom step that is not finished.
    Parked(Parking),
}

/// The result of a report.
pub(super) struct Stored {
    pub(super) order: Order,
    /// The attempt has not ended.
    pub(super) goes_on: bool,
    /// A fence of the environment that the runner knows and this server does not.
    pub(super) lost_fence: Option<Fence>,
    /// The attempt that was granted in the same transaction.
    pub(super) next: Option<Granted>,
}

pub(super) struct Next {
    pub(super) runner: String,
    pub(super) lost_ms: Option<i64>,
    pub(super) nonce: String,
    pub(super) labels: Vec<String>,
}

pub(super) fn store_report(services: &Services, said: Said) -> Result<Stored, EngineError> {
    let (plans, vault) = (services.engine.plans().clone(), services.vault.clone());
    let context = Context::system(Some(said.attempt.org));
    let work = move |tx: &mut Tx<'_>| {
        let it = &said.attempt;
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, it.deployment)? else {
            return Ok(None);
        };
        aggregate.hold();
        let is_its = aggregate.order(it.step, &it.nonce) != Order::Stale;
        let known_fence = match &said.ending {
            Ending::Over(Outcome::NeverStarted { known_fence, .. }) if is_its => *known_fence,
            Ending::Over(_) | Ending::Parked(_) => None,
        };
        let order = match said.ending {
            Ending::Over(outcome) => told(tx, &mut aggregate, it, outcome)?,
            Ending::Parked(parking) => parked(tx, &mut aggregate, it, parking)?,
        };
        let lost_fence = match known_fence {
            Some(known) => aggregate.doubt_fence(tx, known)?.then_some(known),
            None => None,
        };
        let goes_on = aggregate.run.goes_on_with(it.step, it.number);
        let mut granted = None;
        if let Some(next) = said.next {
            let nonces = [next.nonce];
            let asking = Asking {
                runner: &next.runner,
                lost_ms: next.lost_ms,
                org: Some(it.org),
                nonces: &nonces,
                labels: &next.labels,
                only_again: false,
            };
            granted = grant_in(tx, &mut aggregate, &vault, &asking)?.granted.pop();
        }
        // A late report about an earlier call must not overwrite the note of the next one.
        if is_its {
            attempt::set_details(tx, it.deployment, it.step, it.number, &said.note)?;
        }
        aggregate.write(tx)?;
        Ok::<_, EngineError>(Some((Stored { order, goes_on, lost_fence, next: granted }, aggregate.run)))
    };
    let told = services.store.transact_blocking(context, work)?;
    let Some((stored, run)) = told else {
        return Ok(Stored { order: Order::Stale, goes_on: false, lost_fence: None, next: None });
    };
    let look = Look::after(&run);
    services.engine.plans().committed(run);
    match look {
        Look::Everybody => services.nudge(),
        Look::Runners => services.engine.ring(),
        Look::Nobody => {}
    }
    Ok(stored)
}

/// What to wake after a report.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// Background jobs and runners: another deployment may be able to proceed.
    Everybody,
    /// Waiting runners: another step is ready.
    Runners,
    Nobody,
}

impl Look {
    fn after(run: &Run) -> Self {
        if run.status().is_final() || run.queued_for().is_some() || !run.is_alive() {
            return Look::Everybody;
        }
        if run.ready_at().is_some() { Look::Runners } else { Look::Nobody }
    }
}

/// Applies the end of an attempt and its consequences.
pub(super) fn told(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    it: &Named,
    outcome: Outcome,
) -> Result<Order, EngineError> {
    // The session may have changed: a cancelled attempt can only report that it has stopped.
    aggregate.follow_cancel(tx)?;
    let decision = report::report(&aggregate.run, &aggregate.plan, it.step, &it.nonce, outcome, tx.now());
    aggregate.apply(tx, decision)
}

/// Stores the state of a custom step that is not finished, before it is called again.
fn parked(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    it: &Named,
    parking: Parking,
) -> Result<Order, EngineError> {
    aggregate.follow_cancel(tx)?;
    let decision = park::park(&aggregate.run, &aggregate.plan, it.step, &it.nonce, parking, tx.now());
    aggregate.apply(tx, decision)
}

/// The order for the runner of an attempt, and the reason if it has to stop.
pub(super) fn order(
    db: &mut impl Read,
    plans: &Plans,
    it: &Named,
) -> Result<(Order, Option<String>), EngineError> {
    let Some(aggregate) = DeploymentAggregate::load(db, plans, it.deployment)? else {
        return Ok((Order::Stale, None));
    };
    let order = aggregate.order(it.step, &it.nonce);
    let reason = (order != Order::Continue).then(|| reason(&aggregate));
    Ok((order, reason.flatten()))
}

/// If the environment of an attempt was taken over, returns a text that says by whom.
pub(super) fn taken_over(
    db: &mut impl Read,
    plans: &Plans,
    it: &Named,
) -> Result<Option<String>, EngineError> {
    let Some(aggregate) = DeploymentAggregate::load(db, plans, it.deployment)? else { return Ok(None) };
    Ok(match &aggregate.deployment {
        // A reset continues under its own fence.
        LoadedDeployment::Environment { lock, deployment }
            if deployment.target.fence < lock.environment.fence && !aggregate.may_grant() =>
        {
            Some(reason(&aggregate).unwrap_or_else(|| "the environment has another holder".into()))
        }
        LoadedDeployment::Environment { .. } | LoadedDeployment::Stages { .. } => None,
    })
}

/// The text for the last line of a log.
fn reason(aggregate: &DeploymentAggregate) -> Option<String> {
    let told = aggregate.pending_cancel()?;
    let who = |actor: &Actor| actor.name.clone();
    let why = told.reason.as_ref().map(|reason| format!(" (\"{reason}\")")).unwrap_or_default();
    Some(match &aggregate.deployment {
        LoadedDeployment::Environment { lock, .. } => {
            match lock.session.as_ref().filter(|it| it.drain.is_some()) {
                Some(next) => format!("taken over by {}{why}", next.holder.name),
                None => format!("cancelled by {}{why}", who(&told.by)),
            }
        }
        LoadedDeployment::Stages { .. } => format!("cancelled by {}{why}", who(&told.by)),
    })
}

/// Renews attempts, with one transaction per organization so that they do not block each other.
pub(super) fn renew(services: &Services, attempts: &[Named]) -> Result<(), EngineError> {
    let mut by_org: BTreeMap<OrgId, Vec<Named>> = BTreeMap::new();
    for it in attempts {
        by_org.entry(it.org).or_default().push(it.clone());
    }
    for (org, attempts) in by_org {
        services.store.transact_blocking(Context::system(Some(org)), move |tx| {
            let renew =
                |it: &Named| attempt::renew(tx, it.deployment, it.step, it.number, &it.nonce).map(drop);
            attempts.iter().try_for_each(renew).map_err(EngineError::from)
        })?;
    }
    Ok(())
}
