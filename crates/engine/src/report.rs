//! Records the reports of runners. If a runner asks for it, the next step of the deployment is granted in the same
//! transaction.

use std::collections::BTreeMap;

use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::run::{AttemptOutcome, Run, UnfinishedResponse, park, report};
use berth_core::environment::fence::Fence;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_store::tables::attempt;
use berth_store::tables::attempt::AttemptDetails;
use berth_store::tables::attempt::LiveAttempt;
use berth_store::{StoreRead, Tx, TxContext};

use super::aggregate::DeploymentAggregate;
use super::grant::{GrantedAttempt, WorkRequest, grant_in};
use super::loaded::LoadedDeployment;
use super::run_cache::RunCache;
use crate::error::EngineError;
use crate::services::Services;

/// Identifies an attempt in a runner's request. Only the nonce is trusted; the other fields just locate the database
/// rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptLocator {
    pub(super) org: OrgId,
    pub(super) deployment: DeploymentId,
    pub(super) step: StepRunId,
    pub(super) number: u32,
    pub(super) nonce: String,
}

impl From<LiveAttempt> for AttemptLocator {
    fn from(it: LiveAttempt) -> Self {
        let LiveAttempt { org, deployment, step, number, nonce, .. } = it;
        Self { org, deployment, step, number, nonce }
    }
}

pub(super) struct CallReport {
    pub(super) attempt: AttemptLocator,
    pub(super) ending: CallEnding,
    pub(super) note: AttemptDetails,
    /// Set if the runner asks for the next step of the deployment.
    pub(super) next: Option<NextStepRequest>,
}

/// How a call of a step ended. Steps other than custom steps have exactly one call per attempt.
pub(super) enum CallEnding {
    Over(AttemptOutcome),
    /// The custom step is not finished and will be called again.
    Parked(UnfinishedResponse),
}

pub(super) struct ReportResult {
    pub(super) order: RunnerOrder,
    /// The attempt has not ended: its custom step will be called again.
    pub(super) is_unfinished: bool,
    /// A fence of the environment that the runner has seen but this server does not know.
    pub(super) lost_fence: Option<Fence>,
    /// The next attempt, if one was granted in the same transaction.
    pub(super) next: Option<GrantedAttempt>,
}

pub(super) struct NextStepRequest {
    pub(super) runner: String,
    pub(super) lost_ms: Option<i64>,
    pub(super) nonce: String,
    pub(super) labels: Vec<String>,
}

pub(super) fn store_report(services: &Services, said: CallReport) -> Result<ReportResult, EngineError> {
    let (plans, vault) = (services.engine.run_cache().clone(), services.vault.clone());
    let context = TxContext::system(Some(said.attempt.org));
    let work = move |tx: &mut Tx<'_>| {
        let it = &said.attempt;
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, it.deployment)? else {
            return Ok(None);
        };
        aggregate.defer_writes();
        let is_its = aggregate.order(it.step, &it.nonce) != RunnerOrder::Stale;
        let known_fence = match &said.ending {
            CallEnding::Over(AttemptOutcome::NeverStarted { known_fence, .. }) if is_its => *known_fence,
            CallEnding::Over(_) | CallEnding::Parked(_) => None,
        };
        let order = match said.ending {
            CallEnding::Over(outcome) => apply_outcome(tx, &mut aggregate, it, outcome)?,
            CallEnding::Parked(parking) => apply_unfinished(tx, &mut aggregate, it, parking)?,
        };
        let lost_fence = match known_fence {
            Some(known) => aggregate.record_unknown_fence(tx, known)?.then_some(known),
            None => None,
        };
        let goes_on = aggregate.run.continues_attempt(it.step, it.number);
        let mut granted = None;
        if let Some(next) = said.next {
            let nonces = [next.nonce];
            let asking = WorkRequest {
                runner: &next.runner,
                lost_ms: next.lost_ms,
                org: Some(it.org),
                nonces: &nonces,
                labels: &next.labels,
                only_existing: false,
            };
            granted = grant_in(tx, &mut aggregate, &vault, &asking)?.granted.pop();
        }
        // A late report about an earlier call must not overwrite the details of the current call.
        if is_its {
            attempt::set_details(tx, it.deployment, it.step, it.number, &said.note)?;
        }
        aggregate.write_deferred(tx)?;
        Ok::<_, EngineError>(Some((
            ReportResult { order, is_unfinished: goes_on, lost_fence, next: granted },
            aggregate.run,
        )))
    };
    let told = services.store.transact_blocking(context, work)?;
    let Some((stored, run)) = told else {
        return Ok(ReportResult {
            order: RunnerOrder::Stale,
            is_unfinished: false,
            lost_fence: None,
            next: None,
        });
    };
    let look = WakeTarget::after(&run);
    services.engine.run_cache().cache_run(run);
    match look {
        WakeTarget::All => services.wake_engine(),
        WakeTarget::Runners => services.engine.wake_runners(),
        WakeTarget::None => {}
    }
    Ok(stored)
}

/// Which tasks to wake after a report.
#[derive(Debug, Clone, Copy)]
enum WakeTarget {
    /// Background jobs and runners, because another deployment may be able to proceed now.
    All,
    /// Only waiting runners, because another step of this deployment is ready.
    Runners,
    None,
}

impl WakeTarget {
    fn after(run: &Run) -> Self {
        if run.status().is_final() || run.queued_for().is_some() || !run.is_alive() {
            return WakeTarget::All;
        }
        if run.next_ready_at().is_some() { WakeTarget::Runners } else { WakeTarget::None }
    }
}

/// Applies the outcome of an attempt to its run.
pub(super) fn apply_outcome(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    it: &AttemptLocator,
    outcome: AttemptOutcome,
) -> Result<RunnerOrder, EngineError> {
    // The environment may have been taken over since. If the deployment is being cancelled, the report can only confirm
    // that the attempt has stopped.
    aggregate.follow_cancel(tx)?;
    let decision = report::report(&aggregate.run, &aggregate.plan, it.step, &it.nonce, outcome, tx.now());
    aggregate.apply(tx, decision)
}

/// Stores the state of a custom step that is not finished, before it is called again.
fn apply_unfinished(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    it: &AttemptLocator,
    parking: UnfinishedResponse,
) -> Result<RunnerOrder, EngineError> {
    aggregate.follow_cancel(tx)?;
    let decision = park::park(&aggregate.run, &aggregate.plan, it.step, &it.nonce, parking, tx.now());
    aggregate.apply(tx, decision)
}

/// Returns the order for the runner that executes the attempt and, if the attempt has to stop, the reason.
pub(super) fn order(
    db: &mut impl StoreRead,
    plans: &RunCache,
    it: &AttemptLocator,
) -> Result<(RunnerOrder, Option<String>), EngineError> {
    let Some(aggregate) = DeploymentAggregate::load(db, plans, it.deployment)? else {
        return Ok((RunnerOrder::Stale, None));
    };
    let order = aggregate.order(it.step, &it.nonce);
    let reason = (order != RunnerOrder::Continue).then(|| stop_reason(&aggregate));
    Ok((order, reason.flatten()))
}

/// If the environment of an attempt was taken over, returns the text that says by whom.
pub(super) fn takeover_reason(
    db: &mut impl StoreRead,
    plans: &RunCache,
    it: &AttemptLocator,
) -> Result<Option<String>, EngineError> {
    let Some(aggregate) = DeploymentAggregate::load(db, plans, it.deployment)? else { return Ok(None) };
    Ok(match &aggregate.deployment {
        // A lower fence alone does not mean a takeover: a deployment that resets the environment also has one, and
        // keeps running.
        LoadedDeployment::Environment { lock, deployment }
            if deployment.target.fence < lock.environment.fence && !aggregate.may_grant() =>
        {
            Some(stop_reason(&aggregate).unwrap_or_else(|| "the environment has another holder".into()))
        }
        LoadedDeployment::Environment { .. } | LoadedDeployment::Stages { .. } => None,
    })
}

/// Returns the text for the last line of a stopped attempt's log.
fn stop_reason(aggregate: &DeploymentAggregate) -> Option<String> {
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

/// Renews the leases of attempts, in one transaction per organization, so that organizations do not block each other.
pub(super) fn renew(services: &Services, attempts: &[AttemptLocator]) -> Result<(), EngineError> {
    let mut by_org: BTreeMap<OrgId, Vec<AttemptLocator>> = BTreeMap::new();
    for it in attempts {
        by_org.entry(it.org).or_default().push(it.clone());
    }
    for (org, attempts) in by_org {
        services.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            let renew = |it: &AttemptLocator| {
                attempt::renew(tx, it.deployment, it.step, it.number, &it.nonce).map(drop)
            };
            attempts.iter().try_for_each(renew).map_err(EngineError::from)
        })?;
    }
    Ok(())
}
