//! Drills: simulated clients, runners and servers that crash, pause, repeat messages and lie, on one simulated clock.
//!
//! Each participant loads the state, is delayed while other participants write, and then tries to write its decision.
//! Violations are detected by the oracle of [`crate::locks`] and also by a [`target`] outside of the system, which sees
//! who accesses an environment and when. A seed determines the whole run.

mod client;
mod runner;
mod site;
mod target;

use std::fmt;

use client::DrillClient;
use runner::DrillRunner;
use site::DrillSite;

use crate::locks::{LockViolation, WorldChange};
use crate::random::SeededRandom;

const CLIENTS: u8 = 3;
const RUNNERS: usize = 3;
const ROUNDS: u64 = 250;
/// Time in which all work must end. It is enough for twenty deployments of a minute each on two environments, and for
/// some lost runners.
const REST_S_MAX: u64 = 4_000;

/// Counts of what happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrillTally {
    /// Decisions that were written (`commits`), and decisions that were rejected because they were outdated.
    pub commits: u64,
    pub outdated: u64,
    pub crashes: u64,
    /// Accesses to an environment (`touches`), and accesses that its fence check rejected.
    pub touches: u64,
    pub refused: u64,
    /// Attempts whose runner was declared lost.
    pub lost: u64,
    pub seconds: u64,
}

impl std::ops::AddAssign for DrillTally {
    fn add_assign(&mut self, more: Self) {
        self.commits += more.commits;
        self.outdated += more.outdated;
        self.crashes += more.crashes;
        self.touches += more.touches;
        self.refused += more.refused;
        self.lost += more.lost;
        self.seconds += more.seconds;
    }
}

impl fmt::Display for DrillTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DrillTally { commits, outdated, crashes, touches, refused, lost, seconds } = self;
        write!(f, "{commits} commits, {outdated} too late, {crashes} crashes, ")?;
        write!(f, "{touches} touches, {refused} refused by their fence, {lost} attempts lost, ")?;
        write!(f, "{} simulated hours", seconds / 3_600)
    }
}

/// A drill in which a rule was violated.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedDrill {
    pub seed: u64,
    pub violation: LockViolation,
    pub trace: String,
}

impl fmt::Display for FailedDrill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedDrill { seed, violation, trace } = self;
        write!(f, "{trace}\nseed {seed}: {violation}\nagain: cargo xtask sim locks --seed {seed}")
    }
}

/// Runs one drill. A failed run is repeated to record a trace.
pub fn run(seed: u64) -> Result<DrillTally, Box<FailedDrill>> {
    run_on_site(seed, DrillSite::new_quiet())
}

/// Like [`run`], but without the oracle: violations are only detected from accesses to the environments and orders to
/// runners.
pub fn run_unwatched(seed: u64) -> Result<DrillTally, Box<FailedDrill>> {
    run_on_site(seed, DrillSite::new_unwatched())
}

fn run_on_site(seed: u64, mut site: DrillSite) -> Result<DrillTally, Box<FailedDrill>> {
    simulate(seed, &mut site)
        .map(|()| site.tally)
        .map_err(|violation| Box::new(FailedDrill { seed, violation, trace: trace(seed) }))
}

/// Returns a trace of the run.
pub fn trace(seed: u64) -> String {
    let mut site = DrillSite::new_traced();
    let end = simulate(seed, &mut site);
    site.trace_line(|| format!("{end:?}"));
    site.into_trace()
}

fn simulate(seed: u64, site: &mut DrillSite) -> Result<(), LockViolation> {
    let mut chance = SeededRandom::from_seed(seed);
    let mut clients: Vec<_> = (0..CLIENTS).map(DrillClient::new).collect();
    let mut runners: Vec<_> = (0..RUNNERS).map(|_| DrillRunner::new(site)).collect();
    for _ in 0..ROUNDS {
        // Advance the clock one second at a time, so that runners act on their own timeouts before the server declares
        // them lost.
        for _ in 0..chance.pick(&[0, 1, 1, 2, 5]) {
            site.advance_second();
            for runner in &mut runners {
                runner.tick(site)?;
            }
        }
        site.access_by_orphans()?;
        match chance.below(100) {
            0..40 => {
                let client = usize::from(chance.below_u8(CLIENTS));
                clients[client].act(site, &mut chance)?;
            }
            40..43 => site.apply_change(random_change(&mut chance)),
            43..45 => {
                site.crash();
                clients.iter_mut().for_each(DrillClient::lose_server);
                runners.iter_mut().for_each(DrillRunner::lose_server);
            }
            45..55 => site.sweep(&mut chance)?,
            _ => {}
        }
        for runner in &mut runners {
            if chance.percent(60) {
                runner.act(site, &mut chance, FaultMode::Some)?;
            }
        }
        site.declare_lost_runners()?;
    }
    run_to_completion(site, &mut runners, &mut chance)
}

/// Checks that everything that has started ends when there are no more faults.
fn run_to_completion(
    site: &mut DrillSite,
    runners: &mut [DrillRunner],
    chance: &mut SeededRandom,
) -> Result<(), LockViolation> {
    site.apply_change(WorldChange::Resume);
    for _ in 0..REST_S_MAX {
        site.advance_second();
        for runner in &mut *runners {
            runner.tick(site)?;
            runner.act(site, chance, FaultMode::None)?;
        }
        site.declare_lost_runners()?;
        site.sweep(chance)?;
        if site.unfinished_count() == 0 {
            return Ok(());
        }
    }
    let what = format!("{} deployments never came to an end", site.unfinished_count());
    Err(LockViolation { rule: "E4", what })
}

/// Whether runners fail at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultMode {
    None,
    Some,
}

/// Picks a random change to the surroundings of the locks: to the store's clock, a token, the pipeline, the tracked
/// branch or the epoch.
fn random_change(chance: &mut SeededRandom) -> WorldChange {
    const SECOND: i64 = 1_000_000;
    match chance.below(12) {
        0..3 => WorldChange::Advance { micros: chance.pick(&[10, 100, 400, 4_000]) * SECOND },
        3..5 => WorldChange::SetBack { seconds: chance.pick(&[1, 30, 500, 5_000]) },
        5 => WorldChange::Stop,
        6..8 => WorldChange::Resume,
        8 => WorldChange::Track(false),
        9 => WorldChange::Track(true),
        10 => WorldChange::RevokeToken(chance.below_u8(CLIENTS)),
        _ => WorldChange::RaiseEpoch,
    }
}
