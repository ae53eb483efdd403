//! In-memory state of the engine.

use std::num::NonZeroU32;

use berth_core::id::RunnerId;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::beginnings::Beginnings;
use crate::bell::Bell;
use crate::late::Late;
use crate::net::Nets;
use crate::ready_queue::ReadyQueue;
use crate::unfit::Unfit;

use crate::admission::Admission;
use crate::credential::random_base62;
use crate::limits::{PLANS_AT_ONCE, PLANS_WAITING_MAX};
use crate::lost::Watches;
use crate::plans::Plans;

const BOOT_CHARS: usize = 16;
/// Prefix of the embedded runner's name.
pub(crate) const EMBEDDED: &str = "boot_";

pub struct Engine {
    /// The name of the embedded runner, new at every start. Attempts under another name with this prefix belong to a
    /// process that has ended.
    pub(crate) boot: String,
    pub(crate) plans: Plans,
    pub(crate) bell: Bell,
    pub(crate) nudge: watch::Sender<()>,
    pub(crate) watches: Mutex<Watches>,
    pub(crate) unfit: Unfit,
    pub(crate) ready_queue: ReadyQueue,
    pub(crate) late: Late,
    pub(crate) nets: Nets,
    /// Admission for planning deployments. Plan previews of users are limited separately and do not delay it.
    pub(crate) planning: Admission,
    pub(crate) beginnings: Beginnings,
    /// Limits events about refused runners, which retry continuously, to one per second and runner.
    pub(crate) refused: DefaultKeyedRateLimiter<RunnerId>,
}

impl Engine {
    pub(crate) fn new() -> Self {
        Self {
            boot: format!("{EMBEDDED}{}", random_base62(BOOT_CHARS)),
            plans: Plans::default(),
            bell: Bell::default(),
            nudge: watch::Sender::new(()),
            watches: Mutex::default(),
            unfit: Unfit::default(),
            ready_queue: ReadyQueue::default(),
            late: Late::default(),
            nets: Nets::default(),
            planning: Admission::new(PLANS_AT_ONCE, PLANS_WAITING_MAX),
            beginnings: Beginnings::default(),
            refused: RateLimiter::keyed(Quota::per_second(NonZeroU32::MIN)),
        }
    }

    /// Wakes the background jobs and waiting runners after a commit that may start or cancel a step. Notifications are
    /// coalesced.
    pub fn nudge(&self) {
        self.nudge.send_replace(());
        self.bell.ring();
    }

    /// Wakes waiting runners only, not the background jobs.
    pub fn ring(&self) {
        self.bell.ring();
    }

    pub fn nudges(&self) -> watch::Receiver<()> {
        self.nudge.subscribe()
    }

    pub fn boot(&self) -> &str {
        &self.boot
    }

    pub fn plans(&self) -> &Plans {
        &self.plans
    }
}
