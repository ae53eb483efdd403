//! In-memory state of the engine.

use std::num::NonZeroU32;

use berth_core::id::RunnerId;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::late_output::LateOutput;
use crate::masking::AttemptMaskers;
use crate::notifier::WorkNotifier;
use crate::ready_queue::ReadyQueue;
use crate::starts::StartsInProgress;
use crate::unfit_cache::UnfitCache;

use crate::admission::AdmissionControl;
use crate::credential::random_base62;
use crate::limits::{PLANS_AT_ONCE, PLANS_WAITING_MAX};
use crate::lost_attempts::AttemptWatches;
use crate::run_cache::RunCache;

const BOOT_CHARS: usize = 16;
/// Prefix of the names of embedded runners.
pub(crate) const EMBEDDED: &str = "boot_";

pub struct EngineState {
    /// Name of the embedded runner, generated at every start of the server. A different name with the prefix
    /// [`EMBEDDED`] is that of another server process's embedded runner.
    pub(crate) boot: String,
    pub(crate) run_cache: RunCache,
    pub(crate) notifier: WorkNotifier,
    pub(crate) wake_sender: watch::Sender<()>,
    pub(crate) watches: Mutex<AttemptWatches>,
    pub(crate) unfit: UnfitCache,
    pub(crate) ready_queue: ReadyQueue,
    pub(crate) late: LateOutput,
    pub(crate) maskers: AttemptMaskers,
    /// Admission control for planning deployments. Plan previews requested by users have their own limit and do not
    /// delay deployments.
    pub(crate) planning: AdmissionControl,
    pub(crate) starts: StartsInProgress,
    /// Limits the events that record a refused runner to one per second for each runner, because refused runners retry
    /// continuously.
    pub(crate) refused: DefaultKeyedRateLimiter<RunnerId>,
}

impl EngineState {
    pub(crate) fn new() -> Self {
        Self {
            boot: format!("{EMBEDDED}{}", random_base62(BOOT_CHARS)),
            run_cache: RunCache::default(),
            notifier: WorkNotifier::default(),
            wake_sender: watch::Sender::new(()),
            watches: Mutex::default(),
            unfit: UnfitCache::default(),
            ready_queue: ReadyQueue::default(),
            late: LateOutput::default(),
            maskers: AttemptMaskers::default(),
            planning: AdmissionControl::new(PLANS_AT_ONCE, PLANS_WAITING_MAX),
            starts: StartsInProgress::default(),
            refused: RateLimiter::keyed(Quota::per_second(NonZeroU32::MIN)),
        }
    }

    /// Wakes the background jobs and the waiting runners. Called after a commit that may start or cancel a step.
    /// Several notifications in a row may wake them only once.
    pub fn wake(&self) {
        self.wake_sender.send_replace(());
        self.notifier.notify();
    }

    /// Wakes the waiting runners, but not the background jobs.
    pub fn wake_runners(&self) {
        self.notifier.notify();
    }

    pub fn subscribe_wakes(&self) -> watch::Receiver<()> {
        self.wake_sender.subscribe()
    }

    pub fn boot(&self) -> &str {
        &self.boot
    }

    pub fn run_cache(&self) -> &RunCache {
        &self.run_cache
    }
}
