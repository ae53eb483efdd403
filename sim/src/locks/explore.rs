//! Exhaustive exploration, breadth first: tries every sequence over a small alphabet of commands. Only one of several
//! equivalent states is explored further.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_core::deployment::{DeploymentPurpose, DeploymentState};
use berth_core::environment::{Lock, Ticket};
use berth_core::time::Timestamp;

use super::check::LockOracle;
use super::command::LockCommand;
use super::model::{FailedLockSequence, LockModel, trace};

/// Statistics of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplorationStats {
    /// Number of states that were explored further. States at the last level are checked but not counted.
    pub states: usize,
    pub steps: usize,
}

/// Tries every sequence of up to `depth` commands. The oracle checks every step.
pub fn explore(alphabet: &[LockCommand], depth: usize) -> Result<ExplorationStats, Box<FailedLockSequence>> {
    let mut known = BTreeSet::new();
    let mut frontier = vec![(LockModel::default(), LockOracle::default(), Vec::<LockCommand>::new())];
    let mut explored = ExplorationStats { states: 1, steps: 0 };
    for level in 1..=depth {
        let mut next = Vec::new();
        for (model, checker, path) in &frontier {
            for command in alphabet {
                let (mut model, mut checker) = (model.clone(), checker.clone());
                explored.steps += 1;
                let path = || path.iter().chain([command]).cloned().collect::<Vec<_>>();
                if let Err(violation) = model.perform(command, &mut checker) {
                    return Err(Box::new(FailedLockSequence { violation, trace: trace(&path()) }));
                }
                // Drop the events: the oracle has checked them, and keeping them would take most of the memory.
                model.store.events.clear();
                if level < depth && known.insert(canonical_state(&model)) {
                    next.push((model, checker, path()));
                }
            }
        }
        explored.states += next.len();
        frontier = next;
    }
    Ok(explored)
}

/// Returns a string with the part of the state that determines what can happen next in the first environment. Times are
/// relative and past actors are left out, so that states with equal strings have the same future.
fn canonical_state(model: &LockModel) -> String {
    let surroundings = &model.surroundings;
    let mut text = format!(
        "{} {} {} {:?} {:?} {:?};",
        surroundings.is_paused,
        surroundings.is_tracked,
        surroundings.epoch,
        surroundings.revoked_people,
        surroundings.revoked_tokens,
        surroundings.deleted
    );
    let Some(lock) = model.store.load(surroundings.environment(0)) else { return text };
    let from_now = |at: Option<Timestamp>| at.map(|at| at.as_micros() - surroundings.now.as_micros());
    let environment = &lock.environment;
    let _ = write!(
        text,
        "{} {:?} {} {} {};",
        environment.is_declared,
        environment.condition,
        environment.definition_hash,
        environment.sessions.min(2),
        environment.deployments.min(3)
    );
    if let Some(session) = &lock.session {
        let _ = write!(
            text,
            "{} {:?} {:?} {:?} {:?} {:?} {:?};",
            session.holder.name,
            from_now(session.expires_at),
            session.ttl_seconds,
            from_now(Some(session.active_at)),
            session.idle_seconds,
            from_now(session.warned_of),
            session.drain.as_ref().map(|drain| drain.completed_at.is_some())
        );
    }
    for ticket in &lock.tickets {
        let _ = write!(
            text,
            "{} {:?} {:?} {};",
            ticket.holder.name,
            from_now(Some(ticket.expires_at)),
            ticket.terms,
            describe_takeover(&lock, ticket, from_now)
        );
    }
    for it in &lock.deployments {
        let work = match it.target.purpose {
            DeploymentPurpose::Reset => "reset",
            DeploymentPurpose::Session(id)
                if lock.session.as_ref().is_some_and(|session| session.id == id) =>
            {
                "own"
            }
            DeploymentPurpose::Session(_) => "old",
        };
        let cause = match &it.status {
            DeploymentState::Cancelling(cancel) => cancel.cause.as_str(),
            _ => "",
        };
        let nonce = it.attempt().map(|attempt| &attempt.nonce);
        let _ = write!(
            text,
            "{work} {} {cause} {nonce:?} {};",
            it.status.as_str(),
            it.target.overrides_drain.is_some()
        );
    }
    text
}

fn describe_takeover(
    lock: &Lock,
    ticket: &Ticket,
    from_now: impl Fn(Option<Timestamp>) -> Option<i64>,
) -> String {
    let active = lock.session.as_ref().map(|session| session.id);
    let plan = ticket.takeover.as_ref();
    format!("{:?}", plan.map(|plan| (Some(plan.target) == active, from_now(plan.at))))
}
