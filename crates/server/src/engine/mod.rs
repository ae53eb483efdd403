//! The engine: deployments are planned and begun, their steps are granted to runners, and what runners say is written
//! down. It holds no authority in memory: rows decide, a bell only says when to look.

mod acquire;
mod assign;
pub(crate) mod authors;
mod begin;
mod beginnings;
mod bell;
mod calls;
mod epoch;
pub(crate) mod gates;
mod grant;
mod late;
mod link;
mod lost;
mod net;
mod people;
mod plans;
mod prepare;
mod recount;
mod remote;
mod report;
mod rollback;
mod stages;
mod unfit;
mod whole;
mod window;

pub(crate) use begin::{begin_rollouts, begin_startable};
pub(crate) use calls::exposed;
pub(crate) use grant::is_for;
pub use link::Embedded;
pub(crate) use lost::{Watches, end_all, reap};
pub(crate) use people::{Members, electorate, people_behind, tally, voter};
pub(crate) use plans::Plans;
pub(crate) use recount::recount;
pub(crate) use remote::{Far, Left, RunnerCaller};
pub(crate) use rollback::{Asked as RollbackAsked, WayBack};
pub(crate) use stages::{cancel_told, enter_stages};
pub(crate) use whole::{Head, Whole};

use parking_lot::Mutex;
use tokio::sync::watch;

use beginnings::Beginnings;
use bell::Bell;
use late::Late;
use net::Nets;
use unfit::Unfit;
use window::Window;
pub(crate) use window::shows;

use crate::credential::random_base62;
use crate::gate::Gate;
use crate::limits::{PLANS_AT_ONCE, PLANS_WAITING_MAX};

const BOOT_CHARS: usize = 16;
/// Attempts of the embedded runner are under a name that begins with this.
const EMBEDDED: &str = "boot_";

pub(crate) struct Engine {
    /// The name of the embedded runner, new at every start: attempts under another such name are of a process that is
    /// gone.
    boot: String,
    plans: Plans,
    bell: Bell,
    nudge: watch::Sender<()>,
    watches: Mutex<Watches>,
    unfit: Unfit,
    window: Window,
    late: Late,
    nets: Nets,
    /// Where plans are made: what people ask to look at does not hold it up.
    planning: Gate,
    beginnings: Beginnings,
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
            window: Window::default(),
            late: Late::default(),
            nets: Nets::default(),
            planning: Gate::new(PLANS_AT_ONCE, PLANS_WAITING_MAX),
            beginnings: Beginnings::default(),
        }
    }

    /// Something was committed that may let a step start, or tells one to stop. Any number of nudges before the next
    /// look are one.
    pub(crate) fn nudge(&self) {
        self.nudge.send_replace(());
        self.bell.ring();
    }

    /// For those who grant: no need to look at the rest.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    pub(crate) fn nudges(&self) -> watch::Receiver<()> {
        self.nudge.subscribe()
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }
}
