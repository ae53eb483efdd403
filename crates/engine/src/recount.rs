//! Recounts the votes of pending approvals. Eligibility may change while an approval is pending: a member returns, an
//! author joins the organization, or another commit is deployed to the stage. An approval with enough eligible votes is
//! granted.

use berth_core::approval::{self, Approval, ApprovalState};
use berth_core::id::{ApprovalId, OrgId};
use berth_store::tables::approval as approval_table;
use berth_store::{StoreRead, Tx, TxContext};

use super::aggregate::DeploymentAggregate;
use super::authors::{self, CommitRange};
use super::run_cache::RunCache;
use super::{gates, voters};
use crate::error::EngineError;
use crate::services::Services;

/// Number of pending approvals per page.
const PENDING_MAX: i64 = 256;
/// Maximum number of pages per pass.
const PAGES_MAX: usize = 64;

enum RecountStep {
    Nothing,
    Read(CommitRange),
    Grant,
}

pub async fn recount(services: &Services) -> Result<(), EngineError> {
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after;
        let read = services.store.read(None, move |db| {
            Ok::<_, EngineError>(approval_table::list_pending_everywhere(db, from, PENDING_MAX)?)
        });
        let page = read.await?;
        after = page.last().map(|(_, last)| last.id);
        let is_last = page.len() < usize::try_from(PENDING_MAX).unwrap_or(usize::MAX);
        for (org, pending) in page {
            let id = pending.id;
            if let Err(error) = recount_one(services, org, pending).await {
                tracing::error!(?error, approval = %id, "recounting an approval failed");
            }
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

async fn recount_one(services: &Services, org: OrgId, pending: Approval) -> Result<(), EngineError> {
    let wanted = usize::try_from(pending.rule.approvals).unwrap_or(usize::MAX);
    if pending.rule.self_approval && pending.approvers().len() < wanted {
        return Ok(());
    }
    let (id, plans) = (pending.id, services.engine.run_cache().clone());
    let looked = services.store.read(Some(org), move |db| next_recount_step(db, &plans, &pending));
    match looked.await? {
        RecountStep::Nothing => {}
        RecountStep::Read(change) => {
            if authors::read_authors(services, org, change).await? {
                services.wake_engine();
            }
        }
        RecountStep::Grant => {
            let plans = services.engine.run_cache().clone();
            let done = services.store.transact(TxContext::system(Some(org)), move |tx| grant(tx, &plans, id));
            done.await?;
            services.wake_engine();
        }
    }
    Ok(())
}

fn next_recount_step(
    db: &mut impl StoreRead,
    plans: &RunCache,
    pending: &Approval,
) -> Result<RecountStep, EngineError> {
    let Some(aggregate) = DeploymentAggregate::load(db, plans, pending.deployment)? else {
        return Ok(RecountStep::Nothing);
    };
    let stage = aggregate.run.stages.iter().position(|stage| stage.name == pending.stage);
    if let Some(stage) = stage.filter(|_| !pending.rule.self_approval)
        && let Some(change) = authors::unread_range(db, &aggregate, stage)?
    {
        return Ok(RecountStep::Read(change));
    }
    Ok(if voters::tally(db, pending)?.is_enough() { RecountStep::Grant } else { RecountStep::Nothing })
}

fn grant(tx: &mut Tx<'_>, plans: &RunCache, id: ApprovalId) -> Result<(), EngineError> {
    let Some(pending) = approval_table::by_id(tx, id)? else { return Ok(()) };
    let Some(mut aggregate) = DeploymentAggregate::load(tx, plans, pending.deployment)? else {
        return Ok(());
    };
    let Some(digest) = gates::digest_now(&aggregate, &pending) else { return Ok(()) };
    let electorate = voters::electorate(tx, pending.deployment, &pending.stage)?;
    let decision = approval::recount(&pending, &digest, &electorate, tx.now());
    let counted = tx.commit(decision)?;
    match pending.status == ApprovalState::Pending && counted.status == ApprovalState::Approved {
        true => gates::follow_approval(tx, &mut aggregate, &counted),
        false => Ok(()),
    }
}
