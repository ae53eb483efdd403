//! Invariants that hold in every written state.

use berth_core::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use berth_core::environment::{EnvironmentCondition, EnvironmentStatus, Lock, Ticket};
use berth_core::id::{DeploymentId, SessionId};
use berth_core::time::Timestamp;

use super::clock::is_busy;
use super::ends::is_valid;
use super::moves::StepChanges;
use super::{EnvironmentMemory, LockCheckResult, ObservedStep, ensure, work};
use crate::locks::command::LockRequest;

impl EnvironmentMemory {
    pub(super) fn update(&mut self, before: &Lock, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) {
        let environment = &seen.after.environment;
        self.update_clock(before, moves, seen);
        self.update_content(moves, seen);
        self.version = environment.version;
        self.fence = environment.fence;
        self.sessions = environment.sessions;
        self.tickets = environment.tickets;
        self.deployments = environment.deployments;
        self.open = seen.after.session.as_ref().map(|session| session.id);
        self.ended.extend(moves.ended_sessions().map(|it| (it.id, it.clone())));
        let left = moves.tickets.iter().filter(|(_, it)| it.status.as_str() != "waiting");
        self.tickets_left.extend(left.map(|(_, it)| it.id));
        let ended = moves.deployments.iter().filter(|(_, it)| it.status.is_final());
        self.deployments_ended.extend(ended.map(|(_, it)| it.id));
    }
}

pub(super) fn check(memory: &mut EnvironmentMemory, seen: &ObservedStep<'_>) -> LockCheckResult {
    let lock = seen.after;
    check_work(lock)?;
    check_deleted(seen)?;
    check_drain(lock)?;
    check_content(memory, lock)?;
    // The response to a heartbeat writes nothing, so expired sessions and tickets may still be present.
    if !matches!(seen.step.request, LockRequest::Heartbeat { .. }) {
        check_time(memory, seen)?;
        check_queue(seen)?;
    }
    if seen.step.decision.changes.is_empty() { Ok(()) } else { check_agenda(memory, seen) }
}

/// L20, L22: no work of an ended session is waiting, and no two deployments access the environment at once.
fn check_work(lock: &Lock) -> LockCheckResult {
    let active = lock.session.as_ref();
    if let Some(session) = active {
        ensure!(
            session.fence == lock.environment.fence,
            "L8",
            "the holder has fence {} and the environment {}",
            session.fence,
            lock.environment.fence
        );
    }
    let active = active.map(|session| session.id);
    let is_own = |it: &EnvironmentDeployment| matches!(it.target.purpose, DeploymentPurpose::Session(id) if Some(id) == active);
    for it in &lock.deployments {
        let is_left = it.target.purpose != DeploymentPurpose::Reset && !is_own(it);
        let fine = !is_left || matches!(it.status, DeploymentState::Cancelling(_));
        ensure!(fine, "L20", "deployment {} of an ended session is {}", it.number, it.status.as_str());
    }
    // Deployments that override the drain do not count; the override is recorded as an event.
    let live = || {
        let live = lock.deployments.iter().filter(|it| it.attempt().is_some());
        live.filter(|it| it.target.overrides_drain.is_none())
    };
    let kinds = [
        live().any(is_own),
        live().any(|it| it.target.purpose == DeploymentPurpose::Reset),
        live().any(|it| it.target.purpose != DeploymentPurpose::Reset && !is_own(it)),
    ];
    let count = kinds.into_iter().filter(|is_there| *is_there).count();
    ensure!(count <= 1, "L22", "own work, a reset, old work: {kinds:?} run at once");
    let own = lock.deployments.iter().filter(|it| is_own(it) && it.attempt().is_some()).count();
    ensure!(own <= 1, "L22", "{own} deployments of one session run at once");
    let resets = lock
        .deployments
        .iter()
        .filter(|it| it.target.purpose == DeploymentPurpose::Reset && it.attempt().is_some());
    ensure!(resets.count() <= 1, "L22", "two resets run at once");
    Ok(())
}

/// L18: nothing can start in a deleted environment, and running work is ordered to stop.
fn check_deleted(seen: &ObservedStep<'_>) -> LockCheckResult {
    let place = usize::from(seen.step.place);
    let is_present = seen.surroundings.environment(seen.step.place) == seen.step.environment;
    if is_present && !seen.surroundings.deleted[place] {
        return Ok(());
    }
    ensure!(seen.after.session.is_none(), "L18", "a deleted environment is held");
    let goes_on = |it: &&EnvironmentDeployment| !matches!(it.status, DeploymentState::Cancelling(_));
    let count = seen.after.deployments.iter().filter(goes_on).count();
    ensure!(count == 0, "L18", "{count} deployments go on in a deleted environment");
    Ok(())
}

fn live_old_deployments(lock: &Lock) -> Vec<DeploymentId> {
    let active: Option<SessionId> = lock.session.as_ref().map(|session| session.id);
    let live = lock.deployments.iter().filter(|it| it.attempt().is_some());
    let old =
        live.filter(|it| matches!(it.target.purpose, DeploymentPurpose::Session(id) if Some(id) != active));
    old.map(|it| it.id).collect()
}

/// The holder waits for all work of earlier sessions and for nothing else, and is notified when it has ended.
fn check_drain(lock: &Lock) -> LockCheckResult {
    let left = live_old_deployments(lock);
    let Some(session) = &lock.session else { return Ok(()) };
    match &session.drain {
        None => ensure!(
            left.is_empty(),
            "drain",
            "{} old deployments still run and the holder does not wait",
            left.len()
        ),
        Some(drain) => {
            let all_known = left.iter().all(|id| drain.pending.contains(id));
            ensure!(all_known, "drain", "old work runs that the holder does not wait for");
            ensure!(
                drain.completed_at.is_some() == left.is_empty(),
                "drain",
                "completed {:?} with {} left",
                drain.completed_at,
                left.len()
            );
        }
    }
    Ok(())
}

fn check_content(memory: &EnvironmentMemory, lock: &Lock) -> LockCheckResult {
    let environment = &lock.environment;
    let told = environment.condition;
    ensure!(told == memory.condition, "condition", "it is {:?} and says {told:?}", memory.condition);
    ensure!(
        environment.deployed_commit == memory.deployed_commit,
        "condition",
        "{:?} is in it and it says {:?}",
        memory.deployed_commit,
        environment.deployed_commit
    );
    let resets = lock.deployments.iter().any(|it| it.target.purpose == DeploymentPurpose::Reset);
    let state = match memory.condition {
        EnvironmentCondition::Unknown => EnvironmentStatus::Unknown,
        _ if !live_old_deployments(lock).is_empty() => EnvironmentStatus::Contested,
        _ if resets => EnvironmentStatus::Resetting,
        EnvironmentCondition::Dirty => EnvironmentStatus::Dirty,
        EnvironmentCondition::Clean => EnvironmentStatus::Clean,
    };
    ensure!(lock.state() == state, "state", "it is {state:?} and shows {:?}", lock.state());
    Ok(())
}

/// L17, L21: no session outlives its expiry, and its end is announced once, in advance.
fn check_time(memory: &mut EnvironmentMemory, seen: &ObservedStep<'_>) -> LockCheckResult {
    let now = seen.step.moment.now;
    let (Some(session), Some(clock)) = (&seen.after.session, &memory.clock) else { return Ok(()) };
    ensure!(clock.session == session.id, "L1", "the account is of another session");
    ensure!(
        session.expires_at == clock.expires_at,
        "L21",
        "the session ends at {:?}, but {:?} was given",
        session.expires_at,
        clock.expires_at
    );
    ensure!(
        session.lease_expires_at == clock.lease_until,
        "L21",
        "the lease ends at {:?}, but {:?} was given",
        session.lease_expires_at,
        clock.lease_until
    );
    let is_busy = is_busy(seen.after, session.id);
    if let Some((at, reason)) = clock.next_end(is_busy) {
        ensure!(at > now, "L17", "the session is active past its end at {at} ({})", reason.as_str());
    }
    if let Some((from, at)) = clock.announcement(is_busy) {
        let is_told = session.warned_of == Some(at);
        ensure!(is_told || from > now, "warning", "the end at {at} comes unannounced");
        if is_told {
            memory.announced.insert((session.id, at));
        }
    }
    let events = seen.step.decision.events.iter();
    let warnings = events.filter(|event| event.kind == berth_core::event::EventKind::SessionExpiring).count();
    ensure!(warnings <= 1, "warning", "{warnings} warnings at once");
    Ok(())
}

/// L17: no ticket waits while the environment is free, and only valid tickets wait.
fn check_queue(seen: &ObservedStep<'_>) -> LockCheckResult {
    let lock = seen.after;
    let is_free = lock.session.is_none() && lock.environment.is_declared;
    for ticket in &lock.tickets {
        ensure!(is_valid(ticket, seen), "L17", "ticket {} waits and is not valid", ticket.number);
        ensure!(!is_free, "L17", "the environment is free and ticket {} waits", ticket.number);
    }
    let place = |it: &Ticket| (it.takeover.is_none(), it.number);
    ensure!(lock.tickets.is_sorted_by_key(place), "L17", "the queue is not in order of arrival");
    let (Some(session), Some(first)) = (&lock.session, lock.tickets.first()) else { return Ok(()) };
    if let Some(plan) = first.takeover.as_ref().filter(|plan| plan.target == session.id) {
        let runs = lock
            .deployments
            .iter()
            .any(|it| it.target.purpose == DeploymentPurpose::Session(session.id) && it.attempt().is_some());
        let is_due = plan.at.map_or(!runs, |at| at <= seen.step.moment.now);
        ensure!(!is_due, "L17", "the takeover of ticket {} is due and has not come", first.number);
    }
    Ok(())
}

/// The columns that the store uses to find environments with due work are correct.
fn check_agenda(memory: &EnvironmentMemory, seen: &ObservedStep<'_>) -> LockCheckResult {
    let lock = seen.after;
    let agenda = &lock.environment.agenda;
    let counts = (lock.tickets.len(), lock.deployments.len());
    let told = (usize::try_from(agenda.waiting), usize::try_from(agenda.unfinished));
    ensure!(told == (Ok(counts.0), Ok(counts.1)), "agenda", "{counts:?} wait and are unfinished: {told:?}");
    ensure!(agenda.holder == memory.open, "agenda", "it names another holder");
    let startable = lock.deployments.iter().filter(|it| it.status == DeploymentState::Queued);
    let mut startable = startable.filter(|it| work::obstacle(it, lock, false).is_none());
    let first = startable.next().map(|it| it.id);
    ensure!(agenda.startable == first, "agenda", "{first:?} may start and {:?} is named", agenda.startable);
    let due = due_at(memory, lock);
    ensure!(agenda.due_at == due, "agenda", "something is due at {due:?} and not at {:?}", agenda.due_at);
    Ok(())
}

fn due_at(memory: &EnvironmentMemory, lock: &Lock) -> Option<Timestamp> {
    let mut times: Vec<Timestamp> = lock.tickets.iter().map(|ticket| ticket.expires_at).collect();
    if let (Some(session), Some(clock)) = (&lock.session, &memory.clock) {
        let is_busy = is_busy(lock, session.id);
        times.extend(clock.expected_end(is_busy).map(|(at, _)| at));
        times.extend(clock.lease_on_agenda);
        let warning = clock.announcement(is_busy).filter(|(_, end)| session.warned_of != Some(*end));
        times.extend(warning.map(|(from, _)| from));
        let mut plans = lock.tickets.iter().filter_map(|ticket| ticket.takeover.as_ref());
        let plan = plans.find(|plan| plan.target == session.id);
        times.extend(plan.and_then(|plan| plan.at));
    }
    times.into_iter().min()
}
