//! Gates of stages and steps: approvals, time windows and soaks. The run follows an approval in the same transaction.

use std::collections::BTreeSet;

use aws_lc_rs::digest;
use berth_core::approval::{self, Approval, Choice, Lapse, Request, Status};
use berth_core::deployment::run::{RunStatus, StepStatus, bound_to, enter, held};
use berth_core::deployment::stages;
use berth_core::deployment::{Cause, Failure};
use berth_core::id::{ApprovalId, DeploymentId, OrgId, StepRunId};
use berth_core::pipeline::model::Requires;
use berth_core::time::Timestamp;
use berth_store::tables::approval as approval_table;
use berth_store::tables::schedule;
use berth_store::{Context, Read, Tx};

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use super::people;
use super::plans::Plans;
use crate::error::EngineError;
use crate::services::Services;
use crate::vault::hex;

/// The approver that is recorded if approval was bypassed.
const BYPASS: &str = "bypass";
/// Batch size; the rest is loaded by the next pass.
const DUE_MAX: i64 = 256;

/// The state of a stage's approval.
pub enum Asked {
    /// No approval is required, or enough people have approved.
    Enough,
    Waits(Box<Approval>),
    /// Approval has to be requested. An earlier one is outdated.
    Not {
        rule: Requires,
        before: Option<Box<Approval>>,
    },
}

pub fn asked(
    db: &mut impl Read,
    aggregate: &DeploymentAggregate,
    stage: usize,
) -> Result<Asked, EngineError> {
    let Some(rule) = aggregate.plan.stages[stage].rule().filter(|_| !aggregate.deployment.has_bypass())
    else {
        return Ok(Asked::Enough);
    };
    let latest =
        approval_table::latest(db, aggregate.run.deployment, &aggregate.run.stages[stage].name, None)?;
    let digest = bound(aggregate, stage, None);
    Ok(match latest {
        Some(it) if it.status == Status::Pending && it.digest == digest => Asked::Waits(Box::new(it)),
        Some(it) if it.status == Status::Approved => {
            match approval::still_holds(&it, &digest, &people::electorate(db, it.deployment, &it.stage)?) {
                true => Asked::Enough,
                false => Asked::Not { rule, before: Some(Box::new(it)) },
            }
        }
        before => Asked::Not { rule, before: before.map(Box::new) },
    })
}

/// Until when the stage is closed. `None` if it is open, `Some(None)` if the end is not known.
pub fn shut_until(
    aggregate: &DeploymentAggregate,
    stage: usize,
    now: Timestamp,
) -> Option<Option<Timestamp>> {
    if aggregate.deployment.has_bypass() { None } else { aggregate.plan.stages[stage].shut_until(now) }
}

/// The stage that was entered but has not started a step, if it has gates.
pub fn unbegun(aggregate: &DeploymentAggregate) -> Option<usize> {
    aggregate.run.unbegun().filter(|stage| !aggregate.plan.stages[*stage].gates.is_empty())
}

/// Checks the gates again before the first step of a stage. Approval is requested again if too many approvers have lost
/// eligibility. A stage that has started a step is not checked any more.
pub(super) fn may_begin(tx: &mut Tx<'_>, aggregate: &mut DeploymentAggregate) -> Result<bool, EngineError> {
    let Some(stage) = unbegun(aggregate) else { return Ok(true) };
    match asked(tx, aggregate, stage)? {
        Asked::Enough => Ok(shut_until(aggregate, stage, tx.now()).is_none()),
        Asked::Waits(_) => Ok(false),
        Asked::Not { rule, before } => {
            ask(tx, aggregate, rule, before)?;
            Ok(false)
        }
    }
}

/// Whether the stage has at least one approval or a bypass, even if more approvals are required.
pub fn is_kept(
    db: &mut impl Read,
    aggregate: &DeploymentAggregate,
    stage: &str,
) -> Result<bool, EngineError> {
    if aggregate.deployment.has_bypass() {
        return Ok(true);
    }
    if !aggregate.plan.has_approvals() {
        return Ok(false);
    }
    let latest = approval_table::latest(db, aggregate.run.deployment, stage, None)?;
    let counts = |it: &Approval| matches!(it.status, Status::Pending | Status::Approved) && it.given() > 0;
    Ok(latest.as_ref().is_some_and(counts))
}

/// Requests approval of the stage that the deployment waits for or has entered without starting a step. An earlier
/// approval lapses.
pub(super) fn ask(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    rule: Requires,
    before: Option<Box<Approval>>,
) -> Result<(), EngineError> {
    let Some(stage) = aggregate.run.not_begun() else { return Ok(()) };
    if let Some(before) = before {
        let decision = approval::lapse(&before, Lapse::Changed, tx.now());
        tx.commit(decision)?;
    }
    let request = Request {
        id: ApprovalId::from_parts(tx.now(), tx.entropy()?),
        deployment: aggregate.run.deployment,
        number: aggregate.deployment.number(),
        pipeline: aggregate.run.pipeline,
        stage: aggregate.run.stages[stage].name.clone(),
        step: None,
        rule,
        message: None,
        digest: bound(aggregate, stage, None),
    };
    put_request(tx, request)?;
    if let LoadedDeployment::Stages { deployment, .. } = &mut aggregate.deployment {
        let decision = stages::follow(deployment, RunStatus::Waiting, tx.now());
        **deployment = tx.commit(decision)?;
    }
    Ok(())
}

/// Requests approval for steps that now wait for it, and lapses approvals that are no longer needed. Called after every
/// change of a run.
pub(super) fn settle(tx: &mut Tx<'_>, aggregate: &mut DeploymentAggregate) -> Result<(), EngineError> {
    if !aggregate.plan.has_approvals() {
        return Ok(());
    }
    for open in approval_table::open(tx, aggregate.run.deployment)? {
        if !is_awaited(aggregate, &open) {
            let decision = approval::lapse(&open, Lapse::Over, tx.now());
            tx.commit(decision)?;
        }
    }
    let asks = |at: &usize| aggregate.plan.asks(&aggregate.run.steps[*at]);
    let asking: Vec<usize> = aggregate.run.held().filter(asks).collect();
    for at in asking {
        if aggregate.deployment.has_bypass() {
            let decision =
                held::approved(&aggregate.run, &aggregate.plan, aggregate.run.steps[at].id, BYPASS, tx.now());
            // `apply` calls `settle` again for the remaining steps.
            return aggregate.apply(tx, decision);
        }
        ask_about_step(tx, aggregate, at)?;
    }
    Ok(())
}

fn is_awaited(aggregate: &DeploymentAggregate, approval: &Approval) -> bool {
    match approval.step {
        Some(step) => aggregate.run.held().any(|at| aggregate.run.steps[at].id == step),
        None => {
            aggregate.run.not_begun().is_some_and(|stage| aggregate.run.stages[stage].name == approval.stage)
        }
    }
}

fn ask_about_step(tx: &mut Tx<'_>, aggregate: &DeploymentAggregate, at: usize) -> Result<(), EngineError> {
    let (step, stage) = (&aggregate.run.steps[at], aggregate.run.steps[at].stage);
    let (name, digest) = (&aggregate.run.stages[stage].name, bound(aggregate, stage, Some(at)));
    let latest = approval_table::latest(tx, aggregate.run.deployment, name, Some(step.id))?;
    if let Some(open) = latest.filter(|it| it.status == Status::Pending) {
        if open.digest == digest {
            return Ok(());
        }
        let decision = approval::lapse(&open, Lapse::Changed, tx.now());
        tx.commit(decision)?;
    }
    // The expression was evaluated when the step became ready, and its inputs have not changed since.
    let question = aggregate.plan.question(&aggregate.run, at).map_err(EngineError::bug)?;
    let request = Request {
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

fn put_request(tx: &mut Tx<'_>, request: Request) -> Result<(), EngineError> {
    let needed = people::electorate(tx, request.deployment, &request.stage)?.needed(&request.rule);
    let decision = approval::request(request, needed, tx.now());
    tx.commit(decision)?;
    Ok(())
}

/// The digest of what the approval would permit now. `None` if nothing waits for it.
pub fn digest_now(aggregate: &DeploymentAggregate, approval: &Approval) -> Option<String> {
    if !aggregate.goes_on() || !is_awaited(aggregate, approval) {
        return None;
    }
    let stage = aggregate.run.stages.iter().position(|stage| stage.name == approval.stage)?;
    let step = approval.step.and_then(|id| aggregate.run.steps.iter().position(|step| step.id == id));
    Some(bound(aggregate, stage, step))
}

fn bound(aggregate: &DeploymentAggregate, stage: usize, step: Option<usize>) -> String {
    let key = aggregate.build_key();
    let text = bound_to(&aggregate.run, &aggregate.plan, stage, step, key.commit, key.definition_hash);
    format!("sha256:{}", hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()))
}

/// Applies the outcome of an approval to its step or stage. An approved stage is entered by the next pass.
pub fn follow(
    tx: &mut Tx<'_>,
    aggregate: &mut DeploymentAggregate,
    said: &Approval,
) -> Result<(), EngineError> {
    let now = tx.now();
    let failure = match said.status {
        Status::Pending => return Ok(()),
        // A step that still waits requests approval again now, a stage in the next pass.
        Status::Lapsed(_) => return settle(tx, aggregate),
        Status::Approved => {
            let Some(step) = said.step else { return Ok(()) };
            let decision = held::approved(&aggregate.run, &aggregate.plan, step, &last_approver(said), now);
            return aggregate.apply(tx, decision);
        }
        Status::Rejected => Failure { cause: Cause::ApprovalRejected, detail: rejected(said) },
        Status::Expired => Failure {
            cause: Cause::ApprovalExpired,
            detail: format!("{} of {} people approved in time", said.given(), said.needed),
        },
    };
    let decision = match said.step {
        Some(step) => held::refused(&aggregate.run, &aggregate.plan, step, failure, now),
        None if is_awaited(aggregate, said) => enter::refused(&aggregate.run, &aggregate.plan, failure, now),
        None => return Ok(()),
    };
    aggregate.apply(tx, decision)
}

/// The approver's id as custom steps receive it.
fn last_approver(said: &Approval) -> String {
    let last = said.votes.iter().rev().find(|vote| vote.choice == Choice::Approve);
    let id = last.and_then(|vote| vote.by.id).map(|id| id.to_string());
    id.unwrap_or_else(|| BYPASS.to_owned())
}

fn rejected(said: &Approval) -> String {
    let Some(no) = said.votes.iter().find(|vote| vote.choice == Choice::Reject) else {
        return "rejected".into();
    };
    let why = no.comment.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("rejected by {}{why}", no.by.name)
}

/// Approved steps of a stage whose approvers are no longer eligible, for example because one of them retries the stage.
pub fn to_ask_again(
    db: &mut impl Read,
    aggregate: &DeploymentAggregate,
    stage: &str,
) -> Result<BTreeSet<StepRunId>, EngineError> {
    let electorate = people::electorate(db, aggregate.run.deployment, stage)?;
    let mut found = BTreeSet::new();
    for (at, step) in aggregate.run.steps.iter().enumerate() {
        let is_in = aggregate.run.stages[step.stage].name == stage && step.status == StepStatus::Succeeded;
        if !is_in || !aggregate.plan.step(step).is_approval() {
            continue;
        }
        let latest = approval_table::latest(db, aggregate.run.deployment, stage, Some(step.id))?;
        let digest = bound(aggregate, step.stage, Some(at));
        // A step without an approval was bypassed.
        if latest.is_some_and(|it| !approval::still_holds(&it, &digest, &electorate)) {
            found.insert(step.id);
        }
    }
    Ok(found)
}

/// Expires approvals and ends soaks that are due.
pub async fn pass_time(services: &Services) -> Result<(), EngineError> {
    let read = services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, EngineError>((approval_table::due(db, now, DUE_MAX)?, schedule::waking(db, now, DUE_MAX)?))
    });
    let (late, waking) = read.await?;
    let mut has_moved = false;
    for (org, id) in late {
        let plans = services.engine.plans().clone();
        let done =
            services.store.transact(Context::system(Some(org)), move |tx| expire(tx, &plans, id)).await;
        match done {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, approval = %id, "expiring an approval failed"),
        }
    }
    for (org, id) in waking {
        match wake(services, org, id).await {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, deployment = %id, "ending a soak failed"),
        }
    }
    if has_moved {
        services.nudge();
    }
    Ok(())
}

fn expire(tx: &mut Tx<'_>, plans: &Plans, id: ApprovalId) -> Result<(), EngineError> {
    let found = approval_table::by_id(tx, id)?.filter(|found| found.status == Status::Pending);
    let Some(found) = found else { return Ok(()) };
    let electorate = people::electorate(tx, found.deployment, &found.stage)?;
    let decision = approval::expire(&found, &electorate, tx.now());
    let expired = tx.commit(decision)?;
    match DeploymentAggregate::load(tx, plans, expired.deployment)? {
        Some(mut aggregate) => follow(tx, &mut aggregate, &expired),
        None => Ok(()),
    }
}

async fn wake(services: &Services, org: OrgId, id: DeploymentId) -> Result<(), EngineError> {
    let plans = services.engine.plans().clone();
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        let Some(mut aggregate) = DeploymentAggregate::load(tx, &plans, id)? else { return Ok(()) };
        // If the environment has a new session by now, the deployment cannot succeed any more.
        if !aggregate.goes_on() {
            return aggregate.follow_cancel(tx);
        }
        let decision = held::wake(&aggregate.run, &aggregate.plan, tx.now());
        aggregate.apply(tx, decision)
    });
    done.await
}
