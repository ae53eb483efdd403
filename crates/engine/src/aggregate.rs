//! A deployment together with its run and its plan. Whenever the run changes, the status of the deployment is updated
//! in the same transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::environment::report::{
    self as environment_report, DeploymentOutcome, RunnerOrder,
};
use berth_core::deployment::run::rollback::skip_rollback;
use berth_core::deployment::run::{
    Plan, Run, RunChange, RunStatus, StageRunStatus, StageType, StepRun, StepRunStatus, cancel, report,
};
use berth_core::deployment::{CancelRequest, FailureCode, stages};
use berth_core::environment::EnvironmentCondition;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, StepRunId};
use berth_core::name::Reason;
use berth_core::pipeline::model::OnFailure;
use berth_store::tables::plan::{self, BuildKey};
use berth_store::{StoreError, StoreRead, Tx};

use super::gates;
use super::loaded::LoadedDeployment;
use super::rollback::{RollbackPlan, RollbackRequest, record_stage_end};
use super::run_cache::RunCache;
use crate::analysis_requests;
use crate::error::EngineError;

pub struct DeploymentAggregate {
    pub run: Run,
    pub plan: Arc<Plan>,
    pub deployment: LoadedDeployment,
    /// Changes to the run that have been decided but not written yet.
    deferred: Option<DeferredChanges>,
}

/// Collects several decisions about a run so that its row is written once per transaction
/// ([`DeploymentAggregate::write_deferred`]).
#[derive(Default)]
struct DeferredChanges(Option<Box<RunChange>>);

impl DeploymentAggregate {
    /// Returns `None` if the deployment does not exist or has not started.
    pub fn load(
        db: &mut impl StoreRead,
        plans: &RunCache,
        id: DeploymentId,
    ) -> Result<Option<Self>, EngineError> {
        let Some(run) = plans.run(db, id)? else { return Ok(None) };
        let Some(deployment) = LoadedDeployment::load_cached(db, plans, id)? else { return Ok(None) };
        Ok(Some(Self { run, plan: plans.plan(db, id)?, deployment, deferred: None }))
    }

    /// Creates the run and applies its immediate consequences. For example, a run without steps ends right away.
    pub(super) fn begin(
        tx: &mut Tx<'_>,
        decision: RuleDecision<()>,
        plan: Plan,
        deployment: LoadedDeployment,
    ) -> Result<Self, EngineError> {
        let laid_out = decision.changes.iter().find_map(|change| match change {
            RecordChange::Put(DomainRecord::Run(it)) => Some(it.run.clone()),
            RecordChange::Put(_) => None,
        });
        tx.commit(decision)?;
        let run = laid_out.ok_or_else(|| EngineError::bug("a run that was not laid out"))?;
        let mut before = run.clone();
        before.stages.iter_mut().for_each(|stage| stage.status = StageRunStatus::Pending);
        let mut aggregate = Self { run, plan: Arc::new(plan), deployment, deferred: None };
        aggregate.note_build(tx, &before)?;
        aggregate.follow_run(tx)?;
        gates::sync_approvals(tx, &mut aggregate)?;
        Ok(aggregate)
    }

    /// Returns the order for the runner that executes this attempt: continue, cancel or stale.
    pub fn order(&self, step: StepRunId, nonce: &str) -> RunnerOrder {
        match (report::order(&self.run, step, nonce), self.deployment.order()) {
            (RunnerOrder::Stale, _) => RunnerOrder::Stale,
            (RunnerOrder::Cancel, _) | (RunnerOrder::Continue, RunnerOrder::Cancel | RunnerOrder::Stale) => {
                RunnerOrder::Cancel
            }
            (RunnerOrder::Continue, RunnerOrder::Continue) => RunnerOrder::Continue,
        }
    }

    /// Whether another step may start.
    pub fn may_grant(&self) -> bool {
        self.can_proceed() && !self.deployment.is_paused()
    }

    /// Whether the deployment can still succeed.
    pub fn can_proceed(&self) -> bool {
        self.deployment.order() == RunnerOrder::Continue
    }

    /// Returns the pending cancellation, if the running steps have to stop.
    pub fn pending_cancel(&self) -> Option<&CancelRequest> {
        let of_stage = self.run.stages.iter().filter(|stage| stage.status == StageRunStatus::Cancelling);
        of_stage.filter_map(|stage| stage.cancel.as_ref()).next().or(self.deployment.cancel())
    }

    /// Writes a decision about the run, and applies its consequences for the deployment, its stages and its approvals.
    pub fn apply<A>(&mut self, tx: &mut Tx<'_>, decision: RuleDecision<A>) -> Result<A, EngineError> {
        let next = decision.changes.iter().find_map(|change| match change {
            RecordChange::Put(DomainRecord::Run(it)) => Some(it.run.clone()),
            RecordChange::Put(_) => None,
        });
        let answer = self.put(tx, decision)?;
        if let Some(next) = next {
            let before = std::mem::replace(&mut self.run, next);
            self.note_build(tx, &before)?;
            analysis_requests::note_failures(tx, &before, &self.run, &self.plan)?;
            let back = self.note_stages(tx, &before)?;
            self.follow_run(tx)?;
            gates::sync_approvals(tx, self)?;
            if let Some(back) = back {
                // Starting the rollback reads the runs of the deployments in the stage, so write the deferred changes
                // first.
                self.flush(tx)?;
                back.start(tx)?;
            }
        }
        Ok(answer)
    }

    fn put<A>(&mut self, tx: &mut Tx<'_>, mut decision: RuleDecision<A>) -> Result<A, EngineError> {
        if let Some(held) = &mut self.deferred {
            decision.changes = held.take(decision.changes);
        }
        Ok(tx.commit(decision)?)
    }

    /// Defers writes of the run until [`Self::write_deferred`].
    pub(super) fn defer_writes(&mut self) {
        self.deferred.get_or_insert_default();
    }

    /// Writes the deferred changes.
    pub(super) fn write_deferred(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        self.flush(tx)?;
        self.deferred = None;
        Ok(())
    }

    fn flush(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        let Some(change) = self.deferred.as_mut().and_then(|held| held.0.take()) else { return Ok(()) };
        let changes = vec![RecordChange::Put(DomainRecord::Run(change))];
        Ok(tx.commit(RuleDecision { changes, events: Vec::new(), effects: Vec::new(), answer: () })?)
    }

    /// Records the stages that have just ended. Returns the plan of the automatic rollback if a stage with `on_failure:
    /// rollback` has failed. The caller starts the rollback in the same transaction, so each failure is handled exactly
    /// once.
    fn note_stages(&mut self, tx: &mut Tx<'_>, before: &Run) -> Result<Option<RollbackPlan>, EngineError> {
        let LoadedDeployment::Stages { deployment, .. } = &self.deployment else { return Ok(None) };
        let mut wants_back = None;
        for (index, is) in self.run.stages.iter().enumerate() {
            let (was, is_end) = (
                &before.stages[index],
                matches!(is.status, StageRunStatus::Succeeded | StageRunStatus::Failed),
            );
            // Skip a stage that ended without the deployment ever entering it.
            let was_inside = was.status.is_open() || is.tries > was.tries;
            if !is_end || !was_inside || is.kind != StageType::Stage || was.status == is.status {
                continue;
            }
            record_stage_end(tx, deployment, &self.run, &self.plan, index)?;
            let on_failure = self.plan.stages[index].on_failure;
            if is.status == StageRunStatus::Failed && on_failure == OnFailure::Rollback {
                wants_back = Some(index).filter(|index| self.run.has_run_steps(*index));
            }
        }
        let Some(index) = wants_back else { return Ok(None) };
        let asked = RollbackRequest {
            pipeline: deployment.pipeline,
            stage: self.run.stages[index].name.clone(),
            rolled_back: deployment.id,
            to: None,
            by: Actor::system(),
            reason: Reason::parse(&format!("#{} failed in this stage", deployment.number)).ok(),
        };
        let why = match RollbackPlan::find(tx, asked) {
            Ok(found) => return Ok(Some(found)),
            Err(EngineError::Problem(why)) => why.detail,
            // Do not fail the transaction: the stage's failure has to be recorded, and a retry would hit the same
            // internal error. Record that the rollback was skipped instead.
            Err(EngineError::Fault(inside) | EngineError::Store(StoreError::Bug(inside))) => {
                tracing::error!(%inside, deployment = %deployment.id, "automatic rollback failed");
                "internal error".into()
            }
            Err(other) => return Err(other),
        };
        let decision = skip_rollback(&self.run, &self.plan, index, &why, tx.now());
        let next = decision.changes.iter().find_map(|change| match change {
            RecordChange::Put(DomainRecord::Run(it)) => Some(it.run.clone()),
            RecordChange::Put(_) => None,
        });
        self.put(tx, decision)?;
        self.run = next.unwrap_or_else(|| self.run.clone());
        Ok(None)
    }

    /// Cancels the run if its deployment is cancelling. Idempotent.
    pub fn follow_cancel(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        match self.deployment.cancel().cloned() {
            Some(told) => {
                let decision = cancel::cancel(&self.run, &self.plan, &told, tx.now());
                self.apply(tx, decision)
            }
            None => Ok(()),
        }
    }

    /// Updates the status of the deployment from its run.
    pub fn follow_run(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        let status = self.run.status();
        match &mut self.deployment {
            LoadedDeployment::Stages { deployment, .. } => {
                let decision = stages::follow_run(deployment, status, tx.now());
                **deployment = tx.commit(decision)?;
            }
            LoadedDeployment::Environment { lock, deployment } => {
                let outcome = match status {
                    RunStatus::Succeeded => DeploymentOutcome::Succeeded,
                    // If the outcome of any step is unknown, the state of the environment is unknown, too.
                    RunStatus::Failed(_) if has_lost_failure(&self.run) => DeploymentOutcome::Lost,
                    RunStatus::Failed(failure) => DeploymentOutcome::Failed(failure),
                    RunStatus::Cancelled(_) => DeploymentOutcome::Stopped,
                    RunStatus::Waiting
                        if is_unknown(&self.run)
                            && lock.environment.condition != EnvironmentCondition::Unknown =>
                    {
                        let decision = environment_report::mark_unknown(lock, &tx.moment()?);
                        **lock = lock.after(&decision);
                        return Ok(tx.commit(decision)?);
                    }
                    RunStatus::Running | RunStatus::Waiting | RunStatus::Cancelling(_) => return Ok(()),
                };
                let Some(attempt) = deployment.attempt() else { return Ok(()) };
                let decision =
                    environment_report::report(lock, deployment.id, &attempt.nonce, &outcome, &tx.moment()?);
                **lock = lock.after(&decision);
                tx.commit(decision)?;
            }
        }
        Ok(())
    }

    /// If the build stage has succeeded, stores its result for reuse by other deployments. If it has failed, releases
    /// this deployment's claim on the build.
    fn note_build(&self, tx: &mut Tx<'_>, before: &Run) -> Result<(), EngineError> {
        let Some(stage) = self.run.stages.iter().position(|stage| stage.kind == StageType::Build) else {
            return Ok(());
        };
        let (was, is) = (before.stages[stage].status, self.run.stages[stage].status);
        let is_reused = self.run.stages[stage].reused_from.is_some();
        if was == is || !is.is_final() || is_reused || self.deployment.is_untrusted() {
            return Ok(());
        }
        let mut left = BTreeMap::new();
        for step in self.run.steps.iter().filter(|step| step.stage == stage) {
            if step.status == StepRunStatus::Succeeded {
                left.insert(step.index, (step.outputs.clone(), step.artifacts.clone()));
            }
        }
        let left = (is == StageRunStatus::Succeeded).then_some(&left);
        if left.is_some() {
            // If this build was retried, the first failure released the claim, so claim the build again.
            plan::claim_build(tx, self.build_key(), self.run.deployment)?;
        }
        Ok(plan::end_build(tx, self.run.deployment, left)?)
    }

    pub(super) fn build_key(&self) -> BuildKey<'_> {
        let (commit, definition_hash) = self.deployment.source();
        let commit = self.plan.source.as_ref().map_or(commit.as_str(), |source| &source.commit);
        BuildKey { pipeline: self.run.pipeline, commit, definition_hash }
    }
}

impl DeferredChanges {
    /// Moves the changes to the run from `changes` into `self` and returns the other changes.
    fn take(&mut self, changes: Vec<RecordChange>) -> Vec<RecordChange> {
        let mut rest = Vec::new();
        for change in changes {
            match (change, &mut self.0) {
                (RecordChange::Put(DomainRecord::Run(next)), Some(held)) => held.merge(*next),
                (RecordChange::Put(DomainRecord::Run(next)), none) => *none = Some(next),
                (other, _) => rest.push(other),
            }
        }
        rest
    }
}

/// Whether the run waits because the outcome of a step is unknown, as opposed to waiting for an approval or for a soak
/// to end.
fn is_unknown(run: &Run) -> bool {
    run.steps.iter().any(|step| step.status == StepRunStatus::Waiting && !step.is_gated())
}

fn has_lost_failure(run: &Run) -> bool {
    let is_lost =
        |step: &StepRun| step.failure.as_ref().is_some_and(|failure| failure.cause == FailureCode::Lost);
    run.steps.iter().any(|step| step.status == StepRunStatus::Failed && is_lost(step))
}
