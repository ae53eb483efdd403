//! Applies expired timers of environments, in one transaction per environment.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_core::environment;
use berth_core::id::{EnvironmentId, OrgId};
use berth_engine::Services;
use berth_store::tables::{self, environment as environment_table};
use berth_store::{Tx, TxContext};
use futures_util::{StreamExt, stream};

use crate::error::AppError;
use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Number of environments read per query.
const BATCH_MAX: usize = 256;
/// Maximum number of batches per turn. The next turn continues with the rest.
const BATCHES_MAX: usize = 64;
/// Number of concurrent transactions. Concurrent transactions share an fsync.
const SETTLED_AT_ONCE: usize = 32;
/// Added to the wait, so that the job wakes slightly after the timer and never before it.
const LATE: Duration = Duration::from_millis(1);

pub(super) struct ExpireJob(pub(super) Arc<Services>);

impl BackgroundJob for ExpireJob {
    const NAME: &'static str = "expire";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        expire(&self.0).await.map(|()| TurnResult::Idle)
    }

    async fn wait(&self) {
        let pause = pause(&self.0, LOOK_EVERY).await;
        tokio::time::sleep(pause).await;
    }
}

/// Applies all expired timers. Each environment is tried once per turn, so that an environment that fails or stays due
/// does not block the others.
pub(super) async fn expire(services: &Services) -> Result<(), AppError> {
    let mut tried = HashSet::new();
    let mut stuck = 0;
    for _ in 0..BATCHES_MAX {
        let limit = BATCH_MAX + stuck;
        let due = list_due(services, limit).await?;
        let is_last = due.len() < limit;
        let fresh: Vec<_> = due.iter().copied().filter(|(_, id)| tried.insert(*id)).collect();
        stuck = due.len() - fresh.len();
        let settled = |(org, id)| async move {
            if let Err(error) = settle(services, org, id).await {
                tracing::error!(?error, environment = %id, "cannot apply due timers of environment");
            }
        };
        stream::iter(fresh).for_each_concurrent(SETTLED_AT_ONCE, settled).await;
        if is_last || services.shutdown.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Returns the time until the next timer expires, at most `max`. Environments that are still due have failed; they are
/// retried after `max`.
async fn pause(services: &Services, max: Duration) -> Duration {
    let wait = services.store.read(None, |db| {
        let (next, now) = (environment_table::find_next_due(db)?, db.now());
        Ok::<_, AppError>(next.map(|next| next.as_micros() - now.as_micros()))
    });
    match wait.await {
        Ok(Some(micros)) if micros > 0 => Duration::from_micros(micros.unsigned_abs()).min(max) + LATE,
        _ => max,
    }
}

async fn list_due(services: &Services, limit: usize) -> Result<Vec<(OrgId, EnvironmentId)>, AppError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    services
        .store
        .read(None, move |db| {
            let now = db.now();
            Ok::<_, AppError>(environment_table::list_due(db, now, limit)?)
        })
        .await
}

/// Restarts the leases of active sessions, because no heartbeat could arrive while the server was stopped. Called before
/// the server accepts requests.
pub async fn renew_leases(services: &Services) -> Result<u64, AppError> {
    let work = |tx: &mut Tx<'_>| Ok::<_, AppError>(tables::session::renew_all_leases(tx)?);
    services.store.transact(TxContext::system(None), work).await
}

async fn settle(services: &Services, org: OrgId, id: EnvironmentId) -> Result<(), AppError> {
    services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(lock) = tables::environment::by_id(tx, id)? else { return Ok(()) };
            let decision = environment::settle(&lock, &tx.moment()?);
            if decision.changes.is_empty() {
                // The stored due time was too early. If it were not corrected, the environment would stay due forever.
                tables::environment::reschedule(tx, &lock.environment, environment::due_at(&lock))?;
            }
            Ok::<_, AppError>(tx.commit(decision)?)
        })
        .await
}
