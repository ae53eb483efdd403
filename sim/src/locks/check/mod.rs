//! The oracle: checks every step and reports which rule it violates.
//!
//! It shares no code with the rules of `berth-core`. It tracks expiry times, the condition of environments and issued
//! fences by itself, and compares. A violation names the rule:
//!
//! - `L1`: an environment has at most one open session, and outdated decisions are not written.
//! - `L2`: a later session or reset has a higher fence.
//! - `L3`: a claim succeeds if and only if the environment is free.
//! - `L4`: a release ends exactly the named session.
//! - `L5`: a take-over replaces exactly the expected holder, at the planned time.
//! - `L6`: an ended session never changes.
//! - `L7`: fences and numbers have no gaps.
//! - `L8`: a deployment needs the active session that it was requested in.
//! - `L10`: only reports of the current attempt count.
//! - `L12`: work does not access the environment after it counts as stopped.
//! - `L16`: every change has exactly one event, with the right data.
//! - `L17`: tickets are granted in order and while they are valid; ends and take-overs happen when they are due.
//! - `L18`: a deleted environment has no session and no work; its name continues with a higher fence.
//! - `L20`: the work of an ended session is cancelled, and every cancellation has a cause.
//! - `L21`: sessions expire at the announced time, and an extension never shortens them.
//! - `L22`: a deployment starts only when nothing blocks it; one runs at a time unless the drain is overridden.
//! - `E1`: states change only along the state graph, and final states are final.
//! - `E2`: an attempt belongs to one runner and is granted once.
//! - `E4`: everything that has started ends.
//! - `E9`: cancelled work cannot succeed.
//! - `E13`: the nonce of another runner has no effect.

mod answers;
mod clock;
mod ends;
mod events;
mod moves;
mod state;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_core::environment::fence::Fence;
use berth_core::environment::{EnvironmentCondition, Lock, Session};
use berth_core::id::{DeploymentId, EnvironmentId, SessionId, TicketId};
use berth_core::name::{CommitId, EnvName};

use super::model::LockStep;
use super::surroundings::Surroundings;
use clock::SessionClock;

/// A violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockViolation {
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for LockViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.rule, self.what)
    }
}

pub(super) type LockCheckResult = Result<(), LockViolation>;

macro_rules! ensure {
    ($fine:expr, $rule:literal, $($what:tt)+) => {
        if !$fine {
            return Err($crate::locks::check::LockViolation { rule: $rule, what: format!($($what)+) });
        }
    };
}
pub(super) use ensure;

/// One step as the oracle sees it.
pub(super) struct ObservedStep<'a> {
    pub(super) step: &'a LockStep,
    /// The lock as stored after the step.
    pub(super) after: &'a Lock,
    pub(super) surroundings: &'a Surroundings,
}

/// The oracle's state.
#[derive(Debug, Clone, Default)]
pub struct LockOracle {
    environments: BTreeMap<EnvironmentId, EnvironmentMemory>,
    /// The highest fence issued for each environment name.
    fences: BTreeMap<EnvName, Fence>,
}

/// The oracle's state of one environment.
#[derive(Debug, Clone)]
struct EnvironmentMemory {
    version: i64,
    fence: Fence,
    sessions: i64,
    tickets: i64,
    deployments: i64,
    /// The open session.
    open: Option<SessionId>,
    clock: Option<SessionClock>,
    ended: BTreeMap<SessionId, Session>,
    tickets_left: BTreeSet<TicketId>,
    deployments_ended: BTreeSet<DeploymentId>,
    condition: EnvironmentCondition,
    deployed_commit: Option<CommitId>,
    announced: BTreeSet<(SessionId, berth_core::time::Timestamp)>,
}

impl EnvironmentMemory {
    fn new(version: i64, fence: Fence) -> Self {
        Self {
            version,
            fence,
            sessions: 0,
            tickets: 0,
            deployments: 0,
            open: None,
            clock: None,
            ended: BTreeMap::new(),
            tickets_left: BTreeSet::new(),
            deployments_ended: BTreeSet::new(),
            condition: EnvironmentCondition::Clean,
            deployed_commit: None,
            announced: BTreeSet::new(),
        }
    }
}

impl LockOracle {
    pub(super) fn check_step(&mut self, seen: &ObservedStep<'_>) -> LockCheckResult {
        let environment = &seen.after.environment;
        let highest = self.fences.entry(environment.name.clone()).or_default();
        ensure!(
            environment.fence >= *highest,
            "L2",
            "the fence of {} fell from {highest} to {}",
            environment.name,
            environment.fence
        );
        let Some(before) = &seen.step.before else {
            if seen.step.is_outdated {
                // Another participant was faster and has already recreated the environment.
                return Ok(());
            }
            ensure!(
                environment.fence == *highest,
                "L18",
                "a name that was at {highest} begins at {}",
                environment.fence
            );
            self.environments
                .insert(environment.id, EnvironmentMemory::new(environment.version, environment.fence));
            return Ok(());
        };
        *highest = environment.fence;
        let memory = self
            .environments
            .entry(environment.id)
            .or_insert_with(|| EnvironmentMemory::new(before.environment.version, before.environment.fence));
        let is_old = before.environment.version != memory.version;
        if seen.step.is_outdated {
            ensure!(is_old, "L1", "a decision was rejected without a concurrent write");
            ensure!(
                environment.version == memory.version,
                "L16",
                "a decision that was turned away changed something"
            );
            return Ok(());
        }
        if is_old && seen.step.decision.changes.is_empty() {
            // The step changes nothing, and it was correct for the older state that it had loaded.
            return Ok(());
        }
        check_version(memory, seen, is_old)?;
        let moves = moves::collect_changes(memory, before, seen)?;
        clock::check_ends(memory, before, &moves, seen)?;
        ends::check(memory, before, &moves, seen)?;
        work::check(memory, before, &moves, seen)?;
        answers::check(memory, before, &moves, seen)?;
        events::check(&moves, seen)?;
        memory.update(before, &moves, seen);
        state::check(memory, seen)?;
        Ok(())
    }
}

fn check_version(memory: &EnvironmentMemory, seen: &ObservedStep<'_>, is_old: bool) -> LockCheckResult {
    let ObservedStep { step, after, .. } = seen;
    if step.decision.changes.is_empty() {
        ensure!(step.decision.events.is_empty(), "L16", "events without a change");
        ensure!(
            after.environment.version == memory.version,
            "version",
            "the version rose although nothing was written"
        );
        return Ok(());
    }
    ensure!(!is_old, "L1", "a decision about an outdated state was written");
    ensure!(
        after.environment.version == memory.version + 1,
        "version",
        "the version went from {} to {}",
        memory.version,
        after.environment.version
    );
    Ok(())
}
