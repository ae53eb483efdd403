//! A deployment as a whole: its run, its plan, and the head that others look at. What changes in one is followed by the
//! other in the same transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::decision::{Change, Decision, Record};
use berth_core::deployment::report::{self as head_report, Order, Outcome};
use berth_core::deployment::{Cancel, Cause, Deployment, Status};
use berth_core::environment::{Condition, Lock};
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, StepRunId};
use berth_core::name::Reason;
use berth_core::pipeline::model::OnFailure;
use berth_core::pipeline::state::{self, Pipeline};
use berth_core::rollout::{self, Rollout};
use berth_core::run::back::stay;
use berth_core::run::{
    Plan, Run, RunChange, RunStatus, StageKind, StageStatus, StepRun, StepStatus, cancel, report,
};
use berth_store::query::deployments::{self, Either};
use berth_store::tables::plan::{self, BuildKey};
use berth_store::tables::{environment, pipeline};
use berth_store::{Read, StoreError, Tx};

use super::gates;
use super::plans::Plans;
use super::rollback::{Asked, WayBack, note_end};
use crate::analysis_requests;
use crate::error::EngineError;

pub struct Whole {
    pub run: Run,
    pub plan: Arc<Plan>,
    pub head: Head,
    /// What was decided and is not written yet.
    held: Option<Held>,
}

/// Several decisions about a run in one transaction are written once, by [`Whole::write`].
#[derive(Default)]
struct Held(Option<Box<RunChange>>);

pub enum Head {
    /// In an environment: the lock decides whether it may go on.
    Environment {
        lock: Box<Lock>,
        deployment: Box<Deployment>,
    },
    Stages {
        rollout: Box<Rollout>,
        is_paused: bool,
    },
}

impl Whole {
    /// `None`: there is no such deployment, or it has not begun.
    pub fn load(db: &mut impl Read, plans: &Plans, id: DeploymentId) -> Result<Option<Self>, EngineError> {
        let Some(run) = plans.run(db, id)? else { return Ok(None) };
        let Some(head) = Head::load_known(db, plans, id)? else { return Ok(None) };
        Ok(Some(Self { run, plan: plans.get(db, id)?, head, held: None }))
    }

    /// A run is laid out, and what follows at once, follows: a run without steps has ended already.
    pub(super) fn begin(
        tx: &mut Tx<'_>,
        decision: Decision<()>,
        plan: Plan,
        head: Head,
    ) -> Result<Self, EngineError> {
        let laid_out = decision.changes.iter().find_map(|change| match change {
            Change::Put(Record::Run(it)) => Some(it.run.clone()),
            Change::Put(_) => None,
        });
        tx.commit(decision)?;
        let run = laid_out.ok_or_else(|| EngineError::bug("a run that was not laid out"))?;
        let mut before = run.clone();
        before.stages.iter_mut().for_each(|stage| stage.status = StageStatus::Pending);
        let mut whole = Self { run, plan: Arc::new(plan), head, held: None };
        whole.note_build(tx, &before)?;
        whole.follow(tx)?;
        gates::settle(tx, &mut whole)?;
        Ok(whole)
    }

    /// What a runner shall do about an attempt.
    pub fn order(&self, step: StepRunId, nonce: &str) -> Order {
        match (report::order(&self.run, step, nonce), self.head.order()) {
            (Order::Stale, _) => Order::Stale,
            (Order::Cancel, _) | (Order::Continue, Order::Cancel | Order::Stale) => Order::Cancel,
            (Order::Continue, Order::Continue) => Order::Continue,
        }
    }

    /// Whether a further step may begin.
    pub fn may_grant(&self) -> bool {
        self.goes_on() && !self.head.is_paused()
    }

    /// Whether anything of it may still succeed.
    pub fn goes_on(&self) -> bool {
        self.head.order() == Order::Continue
    }

    /// Why what runs has to stop.
    pub fn told_to_stop(&self) -> Option<&Cancel> {
        let of_stage = self.run.stages.iter().filter(|stage| stage.status == StageStatus::Cancelling);
        of_stage.filter_map(|stage| stage.cancel.as_ref()).next().or(self.head.cancel())
    }

    /// Writes what a rule decided about the run, and everything that follows from it.
    pub fn apply<A>(&mut self, tx: &mut Tx<'_>, decision: Decision<A>) -> Result<A, EngineError> {
        let next = decision.changes.iter().find_map(|change| match change {
            Change::Put(Record::Run(it)) => Some(it.run.clone()),
            Change::Put(_) => None,
        });
        let answer = self.put(tx, decision)?;
        if let Some(next) = next {
            let before = std::mem::replace(&mut self.run, next);
            self.note_build(tx, &before)?;
            analysis_requests::note_failures(tx, &before, &self.run, &self.plan)?;
            let back = self.note_stages(tx, &before)?;
            self.follow(tx)?;
            gates::settle(tx, self)?;
            if let Some(back) = back {
                // Who enters a stage looks at the rows of those inside.
                self.flush(tx)?;
                back.start(tx)?;
            }
        }
        Ok(answer)
    }

    fn put<A>(&mut self, tx: &mut Tx<'_>, mut decision: Decision<A>) -> Result<A, EngineError> {
        if let Some(held) = &mut self.held {
            decision.changes = held.take(decision.changes);
        }
        Ok(tx.commit(decision)?)
    }

    /// From here on changes of the run are held back.
    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Writes what was held back.
    pub(super) fn write(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        self.flush(tx)?;
        self.held = None;
        Ok(())
    }

    fn flush(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        let Some(change) = self.held.as_mut().and_then(|held| held.0.take()) else { return Ok(()) };
        let changes = vec![Change::Put(Record::Run(change))];
        Ok(tx.commit(Decision { changes, events: Vec::new(), effects: Vec::new(), answer: () })?)
    }

    /// What has come to an end in its stages is noted. A stage that failed may want to go back: the same transaction
    /// sees to it, so that no failure is forgotten and none is answered twice.
    fn note_stages(&mut self, tx: &mut Tx<'_>, before: &Run) -> Result<Option<WayBack>, EngineError> {
        let Head::Stages { rollout, .. } = &self.head else { return Ok(None) };
        let mut wants_back = None;
        for (index, is) in self.run.stages.iter().enumerate() {
            let (was, is_end) =
                (&before.stages[index], matches!(is.status, StageStatus::Succeeded | StageStatus::Failed));
            // One that ended before it was let in has left nothing.
            let was_inside = was.status.is_open() || is.tries > was.tries;
            if !is_end || !was_inside || is.kind != StageKind::Stage || was.status == is.status {
                continue;
            }
            note_end(tx, rollout, &self.run, &self.plan, index)?;
            let on_failure = self.plan.stages[index].on_failure;
            if is.status == StageStatus::Failed && on_failure == OnFailure::Rollback {
                wants_back = Some(index).filter(|index| self.run.has_touched(*index));
            }
        }
        let Some(index) = wants_back else { return Ok(None) };
        let asked = Asked {
            pipeline: rollout.pipeline,
            stage: self.run.stages[index].name.clone(),
            of: rollout.id,
            to: None,
            by: Actor::system(),
            reason: Reason::parse(&format!("#{} failed in this stage", rollout.number)).ok(),
        };
        let why = match WayBack::find(tx, asked) {
            Ok(found) => return Ok(Some(found)),
            Err(EngineError::Problem(why)) => why.detail,
            // It would be the same next time, and the stage has failed whatever its past is like.
            Err(EngineError::Fault(inside) | EngineError::Store(StoreError::Bug(inside))) => {
                tracing::error!(%inside, deployment = %rollout.id, "a stage that failed could not go back");
                "something broke on our side".into()
            }
            Err(other) => return Err(other),
        };
        let decision = stay(&self.run, &self.plan, index, &why, tx.now());
        let next = decision.changes.iter().find_map(|change| match change {
            Change::Put(Record::Run(it)) => Some(it.run.clone()),
            Change::Put(_) => None,
        });
        self.put(tx, decision)?;
        self.run = next.unwrap_or_else(|| self.run.clone());
        Ok(None)
    }

    /// The head was told to stop: so is the run. Nothing if that has happened already.
    pub fn follow_cancel(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        match self.head.cancel().cloned() {
            Some(told) => {
                let decision = cancel::cancel(&self.run, &self.plan, &told, tx.now());
                self.apply(tx, decision)
            }
            None => Ok(()),
        }
    }

    /// The head follows the run.
    pub fn follow(&mut self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        let status = self.run.status();
        match &mut self.head {
            Head::Stages { rollout, .. } => {
                let decision = rollout::follow(rollout, status, tx.now());
                **rollout = tx.commit(decision)?;
            }
            Head::Environment { lock, deployment } => {
                let outcome = match status {
                    RunStatus::Succeeded => Outcome::Succeeded,
                    // Whatever else failed: if the end of one step is not known, nobody knows what is there.
                    RunStatus::Failed(_) if is_in_doubt(&self.run) => Outcome::Lost,
                    RunStatus::Failed(failure) => Outcome::Failed(failure),
                    RunStatus::Cancelled(_) => Outcome::Stopped,
                    RunStatus::Waiting
                        if is_unknown(&self.run) && lock.environment.condition != Condition::Unknown =>
                    {
                        let decision = head_report::doubt(lock, &tx.moment()?);
                        **lock = lock.after(&decision);
                        return Ok(tx.commit(decision)?);
                    }
                    RunStatus::Running | RunStatus::Waiting | RunStatus::Cancelling(_) => return Ok(()),
                };
                let Some(attempt) = deployment.status.attempt() else { return Ok(()) };
                let decision =
                    head_report::report(lock, deployment.id, &attempt.nonce, &outcome, &tx.moment()?);
                **lock = lock.after(&decision);
                tx.commit(decision)?;
            }
        }
        Ok(())
    }

    /// What the build left is kept for others; one that came to nothing is open to them again.
    fn note_build(&self, tx: &mut Tx<'_>, before: &Run) -> Result<(), EngineError> {
        let Some(stage) = self.run.stages.iter().position(|stage| stage.kind == StageKind::Build) else {
            return Ok(());
        };
        let (was, is) = (before.stages[stage].status, self.run.stages[stage].status);
        if was == is || !is.is_final() || self.run.stages[stage].reused_from.is_some() {
            return Ok(());
        }
        let mut left = BTreeMap::new();
        for step in self.run.steps.iter().filter(|step| step.stage == stage) {
            if step.status == StepStatus::Succeeded {
                left.insert(step.index, (step.outputs.clone(), step.artifacts.clone()));
            }
        }
        let left = (is == StageStatus::Succeeded).then_some(&left);
        if left.is_some() {
            // A build that failed and was retried had given its place up.
            plan::claim_build(tx, self.build_key(), self.run.deployment)?;
        }
        Ok(plan::end_build(tx, self.run.deployment, left)?)
    }

    pub(super) fn build_key(&self) -> BuildKey<'_> {
        let (commit, definition_hash) = match &self.head {
            Head::Environment { deployment, .. } => (&deployment.commit, &deployment.definition_hash),
            Head::Stages { rollout, .. } => (&rollout.commit, &rollout.definition_hash),
        };
        let commit = self.plan.source.as_ref().map_or(commit.as_str(), |source| &source.commit);
        BuildKey { pipeline: self.run.pipeline, commit, definition_hash }
    }
}

impl Held {
    /// Keeps what is about the run, and gives back the rest.
    fn take(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut rest = Vec::new();
        for change in changes {
            match (change, &mut self.0) {
                (Change::Put(Record::Run(next)), Some(held)) => held.then(*next),
                (Change::Put(Record::Run(next)), none) => *none = Some(next),
                (other, _) => rest.push(other),
            }
        }
        rest
    }
}

/// It waits because nobody knows what a step did, not for people or for time.
fn is_unknown(run: &Run) -> bool {
    run.steps.iter().any(|step| step.status == StepStatus::Waiting && !step.is_held())
}

fn is_in_doubt(run: &Run) -> bool {
    let is_lost = |step: &StepRun| step.failure.as_ref().is_some_and(|failure| failure.cause == Cause::Lost);
    run.steps.iter().any(|step| step.status == StepStatus::Failed && is_lost(step))
}

impl Head {
    /// A deployment that has not ended is among those of its environment, which are read anyway.
    fn load_known(db: &mut impl Read, plans: &Plans, id: DeploymentId) -> Result<Option<Self>, EngineError> {
        if let Some(environment) = plans.environment_of(id)
            && let Some(lock) = environment::by_id(db, environment)?
            && let Some(deployment) = lock.deployment(id).cloned()
        {
            return Ok(Some(Head::Environment { lock: Box::new(lock), deployment: Box::new(deployment) }));
        }
        let head = Self::load(db, id)?;
        if let Some(Head::Environment { deployment, .. }) = &head {
            plans.seen_in(deployment.environment, id);
        }
        Ok(head)
    }

    pub fn load(db: &mut impl Read, id: DeploymentId) -> Result<Option<Self>, EngineError> {
        Ok(match deployments::by_id(db, id)? {
            None => None,
            Some(Either::Environment(deployment)) => {
                let lock = environment::by_id(db, deployment.environment)?;
                let lock = lock.ok_or_else(|| EngineError::bug("a deployment without an environment"))?;
                Some(Head::Environment { lock: Box::new(lock), deployment })
            }
            Some(Either::Stages(rollout)) => {
                let found = pipeline::by_id(db, rollout.pipeline)?;
                // Of a deleted pipeline nothing more begins.
                let is_stopped = |found: Pipeline| matches!(found.status, state::Status::Stopped { .. });
                let is_paused = found.is_none_or(|found| is_stopped(found) && rollout.bypass.is_none());
                Some(Head::Stages { rollout, is_paused })
            }
        })
    }

    fn order(&self) -> Order {
        match self {
            Head::Environment { lock, deployment } => match deployment.status.attempt() {
                Some(attempt) => head_report::order(lock, deployment.id, &attempt.nonce),
                None => Order::Stale,
            },
            Head::Stages { rollout, .. } => match rollout.status {
                rollout::Status::Running | rollout::Status::Waiting => Order::Continue,
                rollout::Status::Cancelling(_) => Order::Cancel,
                _ => Order::Stale,
            },
        }
    }

    /// Of the deployment.
    pub fn number(&self) -> i64 {
        match self {
            Head::Environment { deployment, .. } => deployment.number,
            Head::Stages { rollout, .. } => rollout.number,
        }
    }

    /// Somebody with the right to do so chose to wait for nobody.
    pub fn passes_gates(&self) -> bool {
        match self {
            Head::Environment { .. } => false,
            Head::Stages { rollout, .. } => rollout.bypass.is_some(),
        }
    }

    pub fn is_paused(&self) -> bool {
        match self {
            Head::Environment { lock, .. } => lock.is_paused,
            Head::Stages { is_paused, .. } => *is_paused,
        }
    }

    fn cancel(&self) -> Option<&Cancel> {
        match self {
            Head::Environment { lock, deployment } => {
                match &lock.deployment(deployment.id).unwrap_or(deployment).status {
                    Status::Cancelling { cancel, .. } => Some(cancel),
                    _ => None,
                }
            }
            Head::Stages { rollout, .. } => match &rollout.status {
                rollout::Status::Cancelling(cancel) => Some(cancel),
                _ => None,
            },
        }
    }
}
