//! State of the engine in this process.

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
/// Attempts of the embedded runner are under a name that begins with this.
pub(crate) const EMBEDDED: &str = "boot_";

pub struct Engine {
    /// The name of the embedded runner, new at every start: attempts under another such name are of a process that is
    /// gone.
    pub(crate) boot: String,
    pub(crate) plans: Plans,
    pub(crate) bell: Bell,
    pub(crate) nudge: watch::Sender<()>,
    pub(crate) watches: Mutex<Watches>,
    pub(crate) unfit: Unfit,
    pub(crate) ready_queue: ReadyQueue,
    pub(crate) late: Late,
    pub(crate) nets: Nets,
    /// Where plans are made: what people ask to look at does not hold it up.
    pub(crate) planning: Admission,
    pub(crate) beginnings: Beginnings,
    /// Runners that are refused try again and again: one entry of each is recorded a second.
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

    /// Something was committed that may let a step start, or tells one to stop. Any number of nudges before the next
    /// look are one.
    pub fn nudge(&self) {
        self.nudge.send_replace(());
        self.bell.ring();
    }

    /// For those who grant: no need to look at the rest.
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
