//! List of ready steps, shared by all remote runners that are waiting for work at this server.
//!
//! After a notification, the list is read once for all runners, with a pause between reads to limit the load. Runners
//! are woken when the list has changed, and at least once a second, because a step that could not be granted before may
//! be grantable by then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use berth_api::runner::AttemptAssignment;
use berth_core::id::OrgId;
use berth_store::StoreError;
use berth_store::tables::schedule;
use berth_store::tables::schedule::ReadyDeployment;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::acquire::may_get_work;
use super::grant::{PAGES_MAX, READY_MAX, WorkRequest, grant_from_deployment};
use super::remote::RunnerCaller;
use super::runner_calls::build_assignment;
use super::unfit_cache::{UnfitCache, hash_labels};
use crate::admission::AdmissionControl;
use crate::error::EngineError;
use crate::limits::{GRANTS_AT_ONCE, GRANTS_WAITING_MAX};
use crate::services::Services;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// Pause after a read of the list, as a multiple of the time that the read took.
const LOOK_PART: u32 = 4;

pub(super) struct ReadyQueue {
    shown: watch::Sender<Arc<ReadySteps>>,
    wanted: Notify,
    grants: AdmissionControl,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        let shown = watch::Sender::new(Arc::default());
        Self {
            shown,
            wanted: Notify::new(),
            grants: AdmissionControl::new(GRANTS_AT_ONCE, GRANTS_WAITING_MAX),
        }
    }
}

/// A snapshot of the list.
#[derive(Default)]
pub(super) struct ReadySteps {
    ready: Vec<ReadyDeployment>,
    /// Deployments that have not been offered to a runner with the same labels yet, by organization and label set.
    untried: Mutex<HashMap<(OrgId, u64), VecDeque<ReadyDeployment>>>,
}

impl ReadySteps {
    fn next(&self, org: OrgId, labels: &[String], unfit: &UnfitCache) -> Option<ReadyDeployment> {
        let mut untried = self.untried.lock();
        let of_kind = untried.entry((org, hash_labels(labels))).or_insert_with(|| {
            let fits = |it: &&ReadyDeployment| it.org == org && !unfit.contains(it, labels);
            self.ready.iter().filter(fits).copied().collect()
        });
        of_kind.pop_front()
    }

    /// Puts a deployment back, so that it is offered to the next runner with the same labels.
    fn put_back(&self, it: ReadyDeployment, labels: &[String]) {
        let mut untried = self.untried.lock();
        untried.entry((it.org, hash_labels(labels))).or_default().push_front(it);
    }
}

impl ReadyQueue {
    /// Subscribes to changes of the list.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<ReadySteps>> {
        let shown = self.shown.subscribe();
        // Request a read, because the list is not read while no runner is waiting.
        self.wanted.notify_one();
        shown
    }

    /// Grants steps from the list to a runner. Returns `None` if there are no steps that the runner can run.
    pub(super) async fn take(
        services: &Arc<Services>,
        shown: &ReadySteps,
        asking: &WorkRequest<'_>,
        who: &RunnerCaller,
    ) -> Result<Option<Vec<AttemptAssignment>>, EngineError> {
        let (mut work, mut used, org) = (Vec::new(), 0, who.org);
        while used < asking.nonces.len() {
            let Some(ready) = shown.next(org, asking.labels, &services.engine.unfit) else { break };
            let pass = services.engine.ready_queue.grants.enter(org).await?;
            let (there, runner, who) = (services.clone(), asking.runner.to_owned(), who.clone());
            let (nonces, labels) = (asking.nonces[used..].to_vec(), asking.labels.to_vec());
            let tried = tokio::task::spawn_blocking(move || {
                if !may_get_work(&there, &who, &runner)? {
                    return Ok(None);
                }
                let asking = WorkRequest {
                    runner: &runner,
                    lost_ms: who.runner.lost_ms,
                    org: Some(org),
                    nonces: &nonces,
                    labels: &labels,
                    only_existing: false,
                };
                let given = grant_from_deployment(&there, org, ready.deployment, &asking)?;
                if given.used == 0 {
                    there.engine.unfit.insert(&ready, &labels, given.is_for_others);
                    return Ok(Some((Vec::new(), 0)));
                }
                // The deployment may have more ready steps, which other runners can take.
                there.engine.wake_runners();
                let mut work = Vec::with_capacity(given.granted.len());
                for it in &given.granted {
                    work.extend(build_assignment(&there, it)?);
                }
                Ok::<_, EngineError>(Some((work, given.used)))
            });
            let tried = tried.await.map_err(|_| EngineError::bug("a grant panicked"))?;
            drop(pass);
            match tried {
                // The runner was removed, restarted or drained while it was waiting.
                Ok(None) => {
                    shown.put_back(ready, asking.labels);
                    return Ok(Some(work));
                }
                Ok(Some((more, count))) => {
                    work.extend(more);
                    used += count;
                }
                // It is unknown whether the grant was committed. The runner retries with the same nonces and then
                // receives the attempt if it was.
                Err(EngineError::Store(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_)))) => {
                    return Err(error.into());
                }
                Err(error) => {
                    tracing::error!(?error, deployment = %ready.deployment, "granting a step failed");
                }
            }
        }
        Ok((used > 0).then_some(work))
    }
}

/// Keeps the list up to date while runners are waiting.
pub async fn refresh(services: Arc<Services>) {
    let window = &services.engine.ready_queue;
    let mut read_at = Instant::now();
    while !services.shutdown.is_cancelled() {
        let heard = services.engine.notifier.count();
        let began = Instant::now();
        let mut pause = POLL_INTERVAL;
        if window.shown.receiver_count() > 0 {
            match read(&services).await {
                Ok((ready, next)) => {
                    pause = pause.min(next);
                    let is_news = window.shown.borrow().ready != ready;
                    if is_news || began - read_at >= POLL_INTERVAL {
                        read_at = began;
                        window.shown.send_replace(Arc::new(ReadySteps { ready, untried: Mutex::default() }));
                    }
                }
                Err(error) => tracing::warn!(?error, "reading the ready steps failed"),
            }
        }
        // Cap the pause, because a read may take very long during a database outage.
        let rest = (began.elapsed() * LOOK_PART).clamp(LOOK_PAUSE_MIN, POLL_INTERVAL);
        let waits = async {
            tokio::time::sleep(rest).await;
            tokio::select! {
                () = services.engine.notifier.wait_async(heard) => {}
                () = window.wanted.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        };
        services.shutdown.run_until_cancelled(waits).await;
    }
}

/// Returns all deployments with ready steps, and the time until another step becomes ready.
async fn read(services: &Services) -> Result<(Vec<ReadyDeployment>, Duration), EngineError> {
    services
        .store
        .read(None, |db| {
            let (now, mut after, mut all) = (db.now(), None, Vec::new());
            for _ in 0..PAGES_MAX {
                let page = schedule::list_ready(db, now, after, READY_MAX)?;
                after = page.last().map(|last| (last.ready_at, last.deployment));
                let is_last = page.len() < usize::try_from(READY_MAX).unwrap_or(usize::MAX);
                all.extend(page);
                if is_last {
                    break;
                }
            }
            let next = schedule::find_next_ready(db, now)?.map(|at| at.as_micros() - now.as_micros());
            let next = next.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros);
            Ok::<_, EngineError>((all, next.unwrap_or(POLL_INTERVAL)))
        })
        .await
}
