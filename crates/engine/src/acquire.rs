//! Serves the long poll in which a remote runner asks for work.

use std::time::Duration;

use berth_api::remote::AcquireRequest;
use berth_api::runner::AttemptAssignment;
use berth_store::tables::runner;
use tokio::time::Instant;

use super::grant::{self, WorkRequest};
use super::ready_queue::ReadyQueue;
use super::remote::{RemoteCall, RunnerCaller, invalid_state};
use super::runner_calls;
use crate::error::EngineError;
use crate::services::Services;

/// Maximum duration of the long poll.
const ACQUIRE_WAIT_MAX: Duration = Duration::from_secs(20);

impl RemoteCall {
    pub async fn acquire(self, sent: AcquireRequest) -> Result<Vec<AttemptAssignment>, EngineError> {
        let runner = self.process_key(&sent.asked.boot)?;
        let deadline = Instant::now() + Duration::from_millis(sent.wait_ms).min(ACQUIRE_WAIT_MAX);
        let slots = usize::try_from(self.caller.runner.slots).unwrap_or(0);
        if sent.asked.nonces.len() > slots {
            return Err(invalid_state(format!("this runner has {slots} slots, but requested more")));
        }
        let nonces =
            sent.asked.nonces.iter().map(|nonce| self.qualify_nonce(nonce)).collect::<Result<Vec<_>, _>>()?;
        let labels: Vec<String> = self.caller.runner.labels.iter().map(ToString::to_string).collect();
        self.record_seen(false).await?;
        let mut window = self.services.engine.ready_queue.watch();
        let asking = WorkRequest {
            runner: &runner,
            lost_ms: self.caller.runner.lost_ms,
            org: Some(self.caller.org),
            nonces: &nonces,
            labels: &labels,
            only_existing: false,
        };
        let mut found = self.find_granted(&asking).await?;
        while found.is_none() {
            let shown = window.borrow_and_update().clone();
            found = ReadyQueue::take(&self.services, &shown, &asking, &self.caller).await?;
            if found.is_some() {
                break;
            }
            let news = tokio::time::timeout_at(deadline, window.changed());
            let waited = self.services.shutdown.run_until_cancelled(news).await;
            if waited.is_none() {
                return Ok(Vec::new());
            }
            if Instant::now() >= deadline {
                // An empty response makes the runner discard its nonces. An earlier request with the same nonces may
                // have been granted work whose response was lost, so check for such work once more before responding.
                found = Some(self.find_granted(&asking).await?.unwrap_or_default());
            }
        }
        let work = found.unwrap_or_default();
        work.iter().for_each(|it| self.services.engine.maskers.insert(it));
        Ok(work)
    }

    /// Returns the work that an earlier request was already granted under these nonces.
    async fn find_granted(
        &self,
        asking: &WorkRequest<'_>,
    ) -> Result<Option<Vec<AttemptAssignment>>, EngineError> {
        let (runner, lost_ms, org) = (asking.runner.to_owned(), asking.lost_ms, asking.org);
        let (nonces, labels) = (asking.nonces.to_vec(), asking.labels.to_vec());
        self.blocking(move |services| {
            let asking = WorkRequest {
                runner: &runner,
                lost_ms,
                org,
                nonces: &nonces,
                labels: &labels,
                only_existing: true,
            };
            let given = grant::find_granted(services, &asking)?;
            let mut work = Vec::with_capacity(given.granted.len());
            for it in &given.granted {
                work.extend(runner_calls::build_assignment(services, it)?);
            }
            Ok((given.used > 0).then_some(work))
        })
        .await?
    }
}

/// Whether the runner may be granted work: it is still registered, is not draining, and has not been restarted since it
/// sent this request.
pub(super) fn may_get_work(services: &Services, who: &RunnerCaller, mark: &str) -> Result<bool, EngineError> {
    let id = who.runner.id;
    let now = services.store.read_blocking(Some(who.org), move |db| runner::by_id(db, id))?;
    Ok(now.is_some_and(|it| !it.is_draining && it.process_key().as_deref() == Some(mark)))
}
