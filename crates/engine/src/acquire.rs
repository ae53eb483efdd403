//! Long poll of a remote runner for work.

use std::time::Duration;

use berth_api::remote::AcquireAsked;
use berth_api::runner::Assignment;
use berth_store::tables::runner;
use tokio::time::Instant;

use super::calls;
use super::grant::{self, Asking};
use super::ready_queue::ReadyQueue;
use super::remote::{Far, RunnerCaller, refused};
use crate::error::EngineError;
use crate::services::Services;

/// Upper bound for the long poll.
const ACQUIRE_WAIT_MAX: Duration = Duration::from_secs(20);

impl Far {
    pub async fn acquire(self, sent: AcquireAsked) -> Result<Vec<Assignment>, EngineError> {
        let runner = self.mark_of(&sent.asked.boot)?;
        let deadline = Instant::now() + Duration::from_millis(sent.wait_ms).min(ACQUIRE_WAIT_MAX);
        let slots = usize::try_from(self.who.runner.slots).unwrap_or(0);
        if sent.asked.nonces.len() > slots {
            return Err(refused(format!("this runner has {slots} slots, but requested more")));
        }
        let nonces = sent.asked.nonces.iter().map(|nonce| self.own(nonce)).collect::<Result<Vec<_>, _>>()?;
        let labels: Vec<String> = self.who.runner.labels.iter().map(ToString::to_string).collect();
        self.seen(false).await?;
        let mut window = self.services.engine.ready_queue.watch();
        let asking = Asking {
            runner: &runner,
            lost_ms: self.who.runner.lost_ms,
            org: Some(self.who.org),
            nonces: &nonces,
            labels: &labels,
            only_again: false,
        };
        let mut found = self.again(&asking).await?;
        while found.is_none() {
            let shown = window.borrow_and_update().clone();
            found = ReadyQueue::take(&self.services, &shown, &asking, &self.who).await?;
            if found.is_some() {
                break;
            }
            let news = tokio::time::timeout_at(deadline, window.changed());
            let waited = self.services.shutdown.run_until_cancelled(news).await;
            if waited.is_none() {
                return Ok(Vec::new());
            }
            if Instant::now() >= deadline {
                // An empty response retires these nonces, so check once more whether an earlier request was granted
                // work under them.
                found = Some(self.again(&asking).await?.unwrap_or_default());
            }
        }
        let work = found.unwrap_or_default();
        work.iter().for_each(|it| self.services.engine.nets.know(it));
        Ok(work)
    }

    /// Returns the work that was already granted under these nonces.
    async fn again(&self, asking: &Asking<'_>) -> Result<Option<Vec<Assignment>>, EngineError> {
        let (runner, lost_ms, org) = (asking.runner.to_owned(), asking.lost_ms, asking.org);
        let (nonces, labels) = (asking.nonces.to_vec(), asking.labels.to_vec());
        self.blocking(move |services| {
            let asking =
                Asking { runner: &runner, lost_ms, org, nonces: &nonces, labels: &labels, only_again: true };
            let given = grant::again(services, &asking)?;
            let mut work = Vec::with_capacity(given.granted.len());
            for it in &given.granted {
                work.extend(calls::assigned(services, it)?);
            }
            Ok((given.used > 0).then_some(work))
        })
        .await?
    }
}

/// Whether the runner may get work: it exists, has not restarted and is not draining.
pub(super) fn may_have(services: &Services, who: &RunnerCaller, mark: &str) -> Result<bool, EngineError> {
    let id = who.runner.id;
    let now = services.store.read_blocking(Some(who.org), move |db| runner::by_id(db, id))?;
    Ok(now.is_some_and(|it| !it.is_draining && it.mark().as_deref() == Some(mark)))
}
