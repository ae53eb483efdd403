//! Gates: people are asked, time is looked at, and what they say is followed by the run in the same transaction.

use std::collections::BTreeSet;

use aws_lc_rs::digest;
use berth_core::approval::{self, Approval, Choice, Lapse, Request, Status};
use berth_core::deployment::{Cause, Failure};
use berth_core::id::{ApprovalId, DeploymentId, OrgId, StepRunId};
use berth_core::pipeline::model::Requires;
use berth_core::rollout;
use berth_core::run::{RunStatus, StepStatus, bound_to, enter, held};
use berth_core::time::Timestamp;
use berth_store::query::runs;
use berth_store::tables::approval as approval_table;
use berth_store::{Context, Read, Tx};

use super::people;
use super::plans::Plans;
use super::whole::{Head, Whole};
use crate::error::EngineError;
use crate::services::Services;
use crate::vault::hex;

/// Who agreed where nobody was asked.
const BYPASS: &str = "bypass";
/// Looked up in one go. What is left comes with the next look.
const DUE_MAX: i64 = 256;

/// Whether people have said yes to a stage.
pub enum Asked {
    /// Nobody has to, or enough people have.
    Enough,
    Waits(Box<Approval>),
    /// They are to be asked; what they were asked before was about something else.
    Not {
        rule: Requires,
        before: Option<Box<Approval>>,
    },
}

pub fn asked(db: &mut impl Read, whole: &Whole, stage: usize) -> Result<Asked, EngineError> {
    let Some(rule) = whole.plan.stages[stage].rule().filter(|_| !whole.head.passes_gates()) else {
        return Ok(Asked::Enough);
    };
    let latest = approval_table::latest(db, whole.run.deployment, &whole.run.stages[stage].name, None)?;
    let digest = bound(whole, stage, None);
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

/// Until when a stage is shut; `Some(None)` if nobody knows.
pub fn shut_until(whole: &Whole, stage: usize, now: Timestamp) -> Option<Option<Timestamp>> {
    if whole.head.passes_gates() { None } else { whole.plan.stages[stage].shut_until(now) }
}

/// The stage that was entered and in which nothing has begun yet, if it has gates.
pub fn unbegun(whole: &Whole) -> Option<usize> {
    whole.run.unbegun().filter(|stage| !whole.plan.stages[*stage].gates.is_empty())
}

/// The last look before the first step of a stage: what let it in may not hold any more. People are asked again when too
/// few of those who approved still count. What has begun goes on.
pub(super) fn may_begin(tx: &mut Tx<'_>, whole: &mut Whole) -> Result<bool, EngineError> {
    let Some(stage) = unbegun(whole) else { return Ok(true) };
    match asked(tx, whole, stage)? {
        Asked::Enough => Ok(shut_until(whole, stage, tx.now()).is_none()),
        Asked::Waits(_) => Ok(false),
        Asked::Not { rule, before } => {
            ask(tx, whole, rule, before)?;
            Ok(false)
        }
    }
}

/// Somebody has said yes, also if others have to as well.
pub fn is_kept(db: &mut impl Read, whole: &Whole, stage: &str) -> Result<bool, EngineError> {
    if whole.head.passes_gates() {
        return Ok(true);
    }
    if !whole.plan.has_approvals() {
        return Ok(false);
    }
    let latest = approval_table::latest(db, whole.run.deployment, stage, None)?;
    let counts = |it: &Approval| matches!(it.status, Status::Pending | Status::Approved) && it.given() > 0;
    Ok(latest.as_ref().is_some_and(counts))
}

/// People are asked about the stage it waits for, or has entered without having begun. What they were asked before lapses.
pub(super) fn ask(
    tx: &mut Tx<'_>,
    whole: &mut Whole,
    rule: Requires,
    before: Option<Box<Approval>>,
) -> Result<(), EngineError> {
    let Some(stage) = whole.run.not_begun() else { return Ok(()) };
    if let Some(before) = before {
        let decision = approval::lapse(&before, Lapse::Changed, tx.now());
        tx.commit(decision)?;
    }
    let request = Request {
        id: ApprovalId::from_parts(tx.now(), tx.entropy()?),
        deployment: whole.run.deployment,
        number: whole.head.number(),
        pipeline: whole.run.pipeline,
        stage: whole.run.stages[stage].name.clone(),
        step: None,
        rule,
        message: None,
        digest: bound(whole, stage, None),
    };
    put_request(tx, request)?;
    if let Head::Stages { rollout, .. } = &mut whole.head {
        let decision = rollout::follow(rollout, RunStatus::Waiting, tx.now());
        **rollout = tx.commit(decision)?;
    }
    Ok(())
}

/// After every change of a run: steps whose turn it is to ask do so, and what nothing waits for any more lapses.
pub(super) fn settle(tx: &mut Tx<'_>, whole: &mut Whole) -> Result<(), EngineError> {
    if !whole.plan.has_approvals() {
        return Ok(());
    }
    for open in approval_table::open(tx, whole.run.deployment)? {
        if !is_awaited(whole, &open) {
            let decision = approval::lapse(&open, Lapse::Over, tx.now());
            tx.commit(decision)?;
        }
    }
    let asks = |at: &usize| whole.plan.asks(&whole.run.steps[*at]);
    let asking: Vec<usize> = whole.run.held().filter(asks).collect();
    for at in asking {
        if whole.head.passes_gates() {
            let decision = held::approved(&whole.run, &whole.plan, whole.run.steps[at].id, BYPASS, tx.now());
            // It settles what comes after.
            return whole.apply(tx, decision);
        }
        ask_about_step(tx, whole, at)?;
    }
    Ok(())
}

fn is_awaited(whole: &Whole, approval: &Approval) -> bool {
    match approval.step {
        Some(step) => whole.run.held().any(|at| whole.run.steps[at].id == step),
        None => whole.run.not_begun().is_some_and(|stage| whole.run.stages[stage].name == approval.stage),
    }
}

fn ask_about_step(tx: &mut Tx<'_>, whole: &Whole, at: usize) -> Result<(), EngineError> {
    let (step, stage) = (&whole.run.steps[at], whole.run.steps[at].stage);
    let (name, digest) = (&whole.run.stages[stage].name, bound(whole, stage, Some(at)));
    let latest = approval_table::latest(tx, whole.run.deployment, name, Some(step.id))?;
    if let Some(open) = latest.filter(|it| it.status == Status::Pending) {
        if open.digest == digest {
            return Ok(());
        }
        let decision = approval::lapse(&open, Lapse::Changed, tx.now());
        tx.commit(decision)?;
    }
    // It was read when the step's turn came, and nothing it reads has changed since.
    let question = whole.plan.question(&whole.run, at).map_err(EngineError::bug)?;
    let request = Request {
        id: ApprovalId::from_parts(tx.now(), tx.entropy()?),
        deployment: whole.run.deployment,
        number: whole.head.number(),
        pipeline: whole.run.pipeline,
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

/// What would be done now by what an approval is for. `None`: nothing waits for it.
pub fn digest_now(whole: &Whole, approval: &Approval) -> Option<String> {
    if !whole.goes_on() || !is_awaited(whole, approval) {
        return None;
    }
    let stage = whole.run.stages.iter().position(|stage| stage.name == approval.stage)?;
    let step = approval.step.and_then(|id| whole.run.steps.iter().position(|step| step.id == id));
    Some(bound(whole, stage, step))
}

fn bound(whole: &Whole, stage: usize, step: Option<usize>) -> String {
    let key = whole.build_key();
    let text = bound_to(&whole.run, &whole.plan, stage, step, key.commit, key.definition_hash);
    format!("sha256:{}", hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()))
}

/// What people have said, or did not say in time, is what becomes of the step or the stage. A stage that was approved is
/// entered by whoever looks next.
pub fn follow(tx: &mut Tx<'_>, whole: &mut Whole, said: &Approval) -> Result<(), EngineError> {
    let now = tx.now();
    let failure = match said.status {
        Status::Pending => return Ok(()),
        // A step that still waits asks again; a stage does when it is looked at.
        Status::Lapsed(_) => return settle(tx, whole),
        Status::Approved => {
            let Some(step) = said.step else { return Ok(()) };
            let decision = held::approved(&whole.run, &whole.plan, step, &last_approver(said), now);
            return whole.apply(tx, decision);
        }
        Status::Rejected => Failure { cause: Cause::ApprovalRejected, detail: rejected(said) },
        Status::Expired => Failure {
            cause: Cause::ApprovalExpired,
            detail: format!("{} of {} people approved in time", said.given(), said.needed),
        },
    };
    let decision = match said.step {
        Some(step) => held::refused(&whole.run, &whole.plan, step, failure, now),
        None if is_awaited(whole, said) => enter::refused(&whole.run, &whole.plan, failure, now),
        None => return Ok(()),
    };
    whole.apply(tx, decision)
}

/// As a custom step is told.
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

/// Steps of a stage that were approved by people whose word does not count any more: the person who retries is one.
pub fn to_ask_again(
    db: &mut impl Read,
    whole: &Whole,
    stage: &str,
) -> Result<BTreeSet<StepRunId>, EngineError> {
    let electorate = people::electorate(db, whole.run.deployment, stage)?;
    let mut found = BTreeSet::new();
    for (at, step) in whole.run.steps.iter().enumerate() {
        let is_in = whole.run.stages[step.stage].name == stage && step.status == StepStatus::Succeeded;
        if !is_in || !whole.plan.step(step).is_approval() {
            continue;
        }
        let latest = approval_table::latest(db, whole.run.deployment, stage, Some(step.id))?;
        let digest = bound(whole, step.stage, Some(at));
        // One that passed without being asked was bypassed.
        if latest.is_some_and(|it| !approval::still_holds(&it, &digest, &electorate)) {
            found.insert(step.id);
        }
    }
    Ok(found)
}

/// Approvals that were not given in time, and soaks that are over.
pub async fn pass_time(services: &Services) -> Result<(), EngineError> {
    let read = services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, EngineError>((approval_table::due(db, now, DUE_MAX)?, runs::waking(db, now, DUE_MAX)?))
    });
    let (late, waking) = read.await?;
    let mut has_moved = false;
    for (org, id) in late {
        let plans = services.engine.plans().clone();
        let done =
            services.store.transact(Context::system(Some(org)), move |tx| expire(tx, &plans, id)).await;
        match done {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, approval = %id, "an approval could not expire"),
        }
    }
    for (org, id) in waking {
        match wake(services, org, id).await {
            Ok(()) => has_moved = true,
            Err(error) => tracing::error!(?error, deployment = %id, "a soak could not end"),
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
    match Whole::load(tx, plans, expired.deployment)? {
        Some(mut whole) => follow(tx, &mut whole, &expired),
        None => Ok(()),
    }
}

async fn wake(services: &Services, org: OrgId, id: DeploymentId) -> Result<(), EngineError> {
    let plans = services.engine.plans().clone();
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        let Some(mut whole) = Whole::load(tx, &plans, id)? else { return Ok(()) };
        // In an environment that somebody else holds by now nothing succeeds any more.
        if !whole.goes_on() {
            return whole.follow_cancel(tx);
        }
        let decision = held::wake(&whole.run, &whole.plan, tx.now());
        whole.apply(tx, decision)
    });
    done.await
}
