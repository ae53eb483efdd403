//! Gates of stages and steps: approvals, time windows and soaks. When an approval is decided, the run is updated in the
//! same transaction.

use std::collections::BTreeSet;

use aws_lc_rs::digest;
use berth_core::approval::{self, Approval, ApprovalChoice, ApprovalState, LapseCause, NewApproval};
use berth_core::deployment::run::{RunStatus, StepRunStatus, approval_content, enter, gated_steps};
use berth_core::deployment::stages;
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::id::{ApprovalId, DeploymentId, OrgId, StepRunId};
use berth_core::pipeline::model::ApprovalPolicy;
use berth_core::time::Timestamp;
use berth_store::tables::approval as approval_table;
use berth_store::tables::schedule;
use berth_store::{StoreRead, Tx, TxContext};

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use super::run_cache::RunCache;
use super::voters;
use crate::error::EngineError;
use crate::services::Services;
use crate::vault::hex;

/// Value recorded instead of an approver if the approval was bypassed.
const BYPASS: &str = "bypass";
/// Number of due gates loaded per pass; the next pass loads the rest.
const DUE_MAX: i64 = 256;

/// The state of a stage's approval.
pub enum ApprovalProgress {
    /// No approval is required, or enough people have approved.
    Satisfied,
    Pending(Box<Approval>),
    /// Approval has to be requested. If there is an earlier approval, it is outdated.
    Missing {
        rule: ApprovalPolicy,
        before: Option<Box<Approval>>,
    },
}

pub fn approval_progress(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: usize,
) -> Result<ApprovalProgress, EngineError> {
    let Some(rule) =
        aggregate.plan.stages[stage].approval_policy().filter(|_| !aggregate.deployment.has_bypass())
    else {
        return Ok(ApprovalProgress::Satisfied);
    };
    let latest =
        approval_table::find_latest(db, aggregate.run.deployment, &aggregate.run.stages[stage].name, None)?;
    let digest = approval_digest(aggregate, stage, None);
    Ok(match latest {
        Some(it) if it.status == ApprovalState::Pending && it.digest == digest => {
            ApprovalProgress::Pending(Box::new(it))
        }
        Some(it) if it.status == ApprovalState::Approved => {
            match approval::is_still_valid(&it, &digest, &voters::electorate(db, it.deployment, &it.stage)?) {
                true => ApprovalProgress::Satisfied,
                false => ApprovalProgress::Missing { rule, before: Some(Box::new(it)) },
            }
        }
        before => ApprovalProgress::Missing { rule, before: before.map(Box::new) },
    })
}

/// Returns when the stage's time window opens. Returns `None` if the stage is open now, and `Some(None)` if it is
/// closed but the opening time is unknown.
pub fn closed_until(
    aggregate: &DeploymentAggregate,
    stage: usize,
    now: Timestamp,
) -> Option<Option<Timestamp>> {
    if aggregate.deployment.has_bypass() { None } else { aggregate.plan.stages[stage].closed_until(now) }
}

/// Returns the stage that the deployment has entered without starting a step, if that stage has gates.
pub fn gated_unstarted_stage(aggregate: &DeploymentAggregate) -> Option<usize> {
    aggregate.run.entered_unstarted_stage().filter(|stage| !aggregate.plan.stages[*stage].gates.is_empty())
}

/// Checks the gates again before the first step of a stage starts. Requests a new approval if too many approvers have
/// lost their eligibility. Once a step has started, the gates of its stage are no longer checked.
pub(super) fn check_gates(tx: &mut Tx<'_>, aggregate: &mut DeploymentAggregate) -> Result<bool, EngineError> {
    let Some(stage) = gated_unstarted_stage(aggregate) else { return Ok(true) };
    match approval_progress(tx, aggregate, stage)? {
        ApprovalProgress::Satisfied => Ok(closed_until(aggregate, stage, tx.now()).is_none()),
        ApprovalProgress::Pending(_) => Ok(false),
        ApprovalProgress::Missing { rule, before } => {
            request_approval(tx, aggregate, rule, before)?;
            Ok(false)
        }
    }
}

/// Whether the deployment bypasses its gates, or at least one valid vote approves the stage, even if more votes are
/// required.
pub fn is_protected(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: &str,
) -> Result<bool, EngineError> {
    if aggregate.deployment.has_bypass() {
        return Ok(true);
    }
    if !aggregate.plan.has_approvals() {
        return Ok(false);
    }
    let latest = approval_table::find_latest(db, aggregate.run.deployment, stage, None)?;
    let counts = |it: &Approval| {
        matches!(it.status, ApprovalState::Pending | ApprovalState::Approved) && it.valid_approvals() > 0
    };
    Ok(latest.as_ref().is_some_and(counts))
}

/// Requests approval of the stage that the deployment is waiting for, or has entered without starting a step. An
/// earlier approval lapses.
pub(super) fn request_approval(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    rule: ApprovalPolicy,
    before: Option<Box<Approval>>,
) -> Result<(), EngineError> {
    let Some(stage) = aggregate.run.unstarted_stage() else { return Ok(()) };
    if let Some(before) = before {
        let decision = approval::lapse(&before, LapseCause::Changed, tx.now());
        tx.commit(decision)?;
    }
    let request = NewApproval {
        id: ApprovalId::from_parts(tx.now(), tx.entropy()?),
        deployment: aggregate.run.deployment,
        number: aggregate.deployment.number(),
        pipeline: aggregate.run.pipeline,
        stage: aggregate.run.stages[stage].name.clone(),
        step: None,
        rule,
        message: None,
        digest: approval_digest(aggregate, stage, None),
    };
    put_request(tx, request)?;
    if let LoadedDeployment::Stages { deployment, .. } = &mut aggregate.deployment {
        let decision = stages::follow_run(deployment, RunStatus::Waiting, tx.now());
        **deployment = tx.commit(decision)?;
    }
    Ok(())
}

/// Requests approval for the steps that now wait for one, and ends pending approvals that are no longer needed. Called
/// after every change to a run.
pub(super) fn sync_approvals(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
) -> Result<(), EngineError> {
    if !aggregate.plan.has_approvals() {
        return Ok(());
    }
    for open in approval_table::list_pending(tx, aggregate.run.deployment)? {
        if !is_awaited(aggregate, &open) {
            let decision = approval::lapse(&open, LapseCause::Over, tx.now());
            tx.commit(decision)?;
        }
    }
    let asks = |at: &usize| aggregate.plan.needs_approval(&aggregate.run.steps[*at]);
    let asking: Vec<usize> = aggregate.run.gated_steps().filter(asks).collect();
    for at in asking {
        if aggregate.deployment.has_bypass() {
            let decision = gated_steps::pass_approval(
                &aggregate.run,
                &aggregate.plan,
                aggregate.run.steps[at].id,
                BYPASS,
                tx.now(),
            );
            // `apply` calls this function again, which handles the remaining steps.
            return aggregate.apply(tx, decision);
        }
        request_step_approval(tx, aggregate, at)?;
    }
    Ok(())
}

fn is_awaited(aggregate: &DeploymentAggregate, approval: &Approval) -> bool {
    match approval.step {
        Some(step) => aggregate.run.gated_steps().any(|at| aggregate.run.steps[at].id == step),
        None => aggregate
            .run
            .unstarted_stage()
            .is_some_and(|stage| aggregate.run.stages[stage].name == approval.stage),
    }
}

fn request_step_approval(
    tx: &mut Tx<'_>,
    aggregate: &DeploymentAggregate,
    at: usize,
) -> Result<(), EngineError> {
    let (step, stage) = (&aggregate.run.steps[at], aggregate.run.steps[at].stage);
    let (name, digest) = (&aggregate.run.stages[stage].name, approval_digest(aggregate, stage, Some(at)));
    let latest = approval_table::find_latest(tx, aggregate.run.deployment, name, Some(step.id))?;
    if let Some(open) = latest.filter(|it| it.status == ApprovalState::Pending) {
        if open.digest == digest {
            return Ok(());
        }
        let decision = approval::lapse(&open, LapseCause::Changed, tx.now());
        tx.commit(decision)?;
    }
    // This can only fail because of a bug: the same expression was evaluated when the step became ready, and its inputs
    // have not changed since.
    let question = aggregate.plan.approval_terms(&aggregate.run, at).map_err(EngineError::bug)?;
    let request = NewApproval {
        id: ApprovalId::from_parts(tx.now(), tx.entropy()?),
        deployment: aggregate.run.deployment,
        number: aggregate.deployment.number(),
        pipeline: aggregate.run.pipeline,
        stage: name.clone(),
        step: Some(step.id),
        rule: question.rule,
        message: question.message,
        digest,
    };
    put_request(tx, request)
}

fn put_request(tx: &mut Tx<'_>, request: NewApproval) -> Result<(), EngineError> {
    let needed =
        voters::electorate(tx, request.deployment, &request.stage)?.required_approvals(&request.rule);
    let decision = approval::request(request, needed, tx.now());
    tx.commit(decision)?;
    Ok(())
}

/// Returns the digest of what the approval would permit if it were given now. `None` if the deployment no longer waits
/// for the approval.
pub fn digest_now(aggregate: &DeploymentAggregate, approval: &Approval) -> Option<String> {
    if !aggregate.can_proceed() || !is_awaited(aggregate, approval) {
        return None;
    }
    let stage = aggregate.run.stages.iter().position(|stage| stage.name == approval.stage)?;
    let step = approval.step.and_then(|id| aggregate.run.steps.iter().position(|step| step.id == id));
    Some(approval_digest(aggregate, stage, step))
}

fn approval_digest(aggregate: &DeploymentAggregate, stage: usize, step: Option<usize>) -> String {
    let key = aggregate.build_key();
    let text =
        approval_content(&aggregate.run, &aggregate.plan, stage, step, key.commit, key.definition_hash);
    format!("sha256:{}", hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()))
}

/// Applies the outcome of an approval to its step or stage. If a stage was approved, the next pass moves the deployment
/// into it.
pub fn follow_approval(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    said: &Approval,
) -> Result<(), EngineError> {
    let now = tx.now();
    let failure = match said.status {
        ApprovalState::Pending => return Ok(()),
        // If the approval was for a step that is still waiting, request a new one now. For a stage, the next pass
        // requests it.
        ApprovalState::Lapsed(_) => return sync_approvals(tx, aggregate),
        ApprovalState::Approved => {
            let Some(step) = said.step else { return Ok(()) };
            let decision =
                gated_steps::pass_approval(&aggregate.run, &aggregate.plan, step, &last_approver(said), now);
            return aggregate.apply(tx, decision);
        }
        ApprovalState::Rejected => {
            ExecutionFailure { cause: FailureCode::ApprovalRejected, detail: rejection_text(said) }
        }
        ApprovalState::Expired => ExecutionFailure {
            cause: FailureCode::ApprovalExpired,
            detail: format!("{} of {} people approved in time", said.valid_approvals(), said.needed),
        },
    };
    let decision = match said.step {
        Some(step) => gated_steps::fail_approval(&aggregate.run, &aggregate.plan, step, failure, now),
        None if is_awaited(aggregate, said) => {
            enter::fail_entry(&aggregate.run, &aggregate.plan, failure, now)
        }
        None => return Ok(()),
    };
    aggregate.apply(tx, decision)
}

/// Returns the id of the last approver, which is passed to custom steps.
fn last_approver(said: &Approval) -> String {
    let last = said.votes.iter().rev().find(|vote| vote.choice == ApprovalChoice::Approve);
    let id = last.and_then(|vote| vote.by.id).map(|id| id.to_string());
    id.unwrap_or_else(|| BYPASS.to_owned())
}

fn rejection_text(said: &Approval) -> String {
    let Some(no) = said.votes.iter().find(|vote| vote.choice == ApprovalChoice::Reject) else {
        return "rejected".into();
    };
    let why = no.comment.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("rejected by {}{why}", no.by.name)
}

/// Returns the approved steps of a stage that need a new approval because their approvers are no longer eligible, for
/// example because one of them retries the stage.
pub fn steps_to_reapprove(
    db: &mut impl StoreRead,
    aggregate: &DeploymentAggregate,
    stage: &str,
) -> Result<BTreeSet<StepRunId>, EngineError> {
    let electorate = voters::electorate(db, aggregate.run.deployment, stage)?;
    let mut found = BTreeSet::new();
    for (at, step) in aggregate.run.steps.iter().enumerate() {
        let is_in = aggregate.run.stages[step.stage].name == stage && step.status == StepRunStatus::Succeeded;
        if !is_in || !aggregate.plan.step(step).is_approval() {
            continue;
        }
        let latest = approval_table::find_latest(db, aggregate.run.deployment, stage, Some(step.id))?;
        let digest = approval_digest(aggregate, step.stage, Some(at));
        // If there is no approval, the step succeeded because of a bypass, and needs no new approval.
        if latest.is_some_and(|it| !approval::is_still_valid(&it, &digest, &electorate)) {
            found.insert(step.id);
        }
    }
    Ok(found)
}

/// Expires overdue approvals and ends soaks whose time has passed.
pub async fn process_due_gates(services: &Services) -> Result<(), EngineError> {
    let read = services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, EngineError>((
            approval_table::list_expired(db, now, DUE_MAX)?,
            schedule::list_waking(db, now, DUE_MAX)?,
        ))
    });
    let (late, waking) = read.await?;
    let mut has_moved = false;
    for (org, id) in late {
        let plans = services.engine.run_cache().clone();
        let done = services
            .store
            .transact(TxContext::system(Some(org)), move |tx| expire_approval(tx, &plans, id))
            .await;
        match done {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, approval = %id, "expiring an approval failed"),
        }
    }
    for (org, id) in waking {
        match wake_run(services, org, id).await {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, deployment = %id, "ending a soak failed"),
        }
    }
    if has_moved {
        services.wake_engine();
    }
    Ok(())
}

fn expire_approval(tx: &mut Tx<'_>, plans: &RunCache, id: ApprovalId) -> Result<(), EngineError> {
    let found = approval_table::by_id(tx, id)?.filter(|found| found.status == ApprovalState::Pending);
    let Some(found) = found else { return Ok(()) };
    let electorate = voters::electorate(tx, found.deployment, &found.stage)?;
    let decision = approval::expire(&found, &electorate, tx.now());
    let expired = tx.commit(decision)?;
    match DeploymentAggregate::load(tx, plans, expired.deployment)? {
        Some(mut aggregate) => follow_approval(tx, &mut aggregate, &expired),
        None => Ok(()),
    }
}

async fn wake_run(services: &Services, org: OrgId, id: DeploymentId) -> Result<(), EngineError> {
    let plans = services.engine.run_cache().clone();
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, id)? else { return Ok(()) };
        // If the environment has been claimed by another session since, the deployment can no longer succeed.
        if !aggregate.can_proceed() {
            return aggregate.follow_cancel(tx);
        }
        let decision = gated_steps::wake(&aggregate.run, &aggregate.plan, tx.now());
        aggregate.apply(tx, decision)
    });
    done.await
}
