//! Derives what a step changed from the written records, and checks each transition: one open session at a time, fences
//! without gaps, ended sessions that stay unchanged, and deployments that stay ended.

use berth_core::decision::{DomainRecord, RecordChange};
use berth_core::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use berth_core::environment::fence::Fence;
use berth_core::environment::{Environment, Lock, Session, Ticket, TicketState};

use super::{EnvironmentMemory, LockCheckResult, LockViolation, ObservedStep, ensure};

/// The records written by one decision, each with the record it replaces.
#[derive(Default)]
pub(super) struct StepChanges<'a> {
    pub(super) environment: Option<&'a Environment>,
    pub(super) sessions: Vec<(Option<&'a Session>, &'a Session)>,
    pub(super) tickets: Vec<(Option<&'a Ticket>, &'a Ticket)>,
    pub(super) deployments: Vec<(Option<&'a EnvironmentDeployment>, &'a EnvironmentDeployment)>,
}

impl<'a> StepChanges<'a> {
    pub(super) fn opened_sessions(&self) -> impl Iterator<Item = &'a Session> {
        self.sessions.iter().filter(|(old, _)| old.is_none()).map(|(_, new)| *new)
    }

    pub(super) fn ended_sessions(&self) -> impl Iterator<Item = &'a Session> {
        self.sessions.iter().filter(|(_, new)| new.end.is_some()).map(|(_, new)| *new)
    }

    pub(super) fn granted_tickets(&self) -> impl Iterator<Item = &'a Ticket> {
        let tickets = self.tickets.iter().map(|(_, new)| *new);
        tickets.filter(|it| matches!(it.status, TicketState::Granted { .. }))
    }

    pub(super) fn planned_deployments(&self) -> impl Iterator<Item = &'a EnvironmentDeployment> {
        self.deployments.iter().filter(|(old, _)| old.is_none()).map(|(_, new)| *new)
    }
}

pub(super) fn collect_changes<'a>(
    memory: &EnvironmentMemory,
    before: &'a Lock,
    seen: &ObservedStep<'a>,
) -> Result<StepChanges<'a>, LockViolation> {
    let mut moves = StepChanges::default();
    let mut open = memory.open;
    for RecordChange::Put(record) in &seen.step.decision.changes {
        match record {
            DomainRecord::Pipeline(_)
            | DomainRecord::StagesDeployment(_)
            | DomainRecord::Run(_)
            | DomainRecord::Approval(_)
            | DomainRecord::Stage(_)
            | DomainRecord::StageEnd(_)
            | DomainRecord::Analysis(_)
            | DomainRecord::FixPullRequest(_) => {}
            DomainRecord::Environment(it) => {
                ensure!(moves.environment.is_none(), "version", "the environment was written twice");
                moves.environment = Some(it.as_ref());
            }
            DomainRecord::Session(it) => {
                let old = before.session.as_ref().filter(|old| old.id == it.id);
                check_session(memory, old, it)?;
                match &it.end {
                    // There must never be two open sessions, not even between two writes of a transaction: a unique
                    // index would reject the second.
                    None => ensure!(
                        open.is_none_or(|open| open == it.id),
                        "L1",
                        "session {} was opened while another was open",
                        it.number
                    ),
                    Some(_) => {
                        ensure!(
                            open == Some(it.id) || (old.is_none() && open.is_none()),
                            "L1",
                            "session {} ended, which was not the open one",
                            it.number
                        );
                    }
                }
                open = it.end.is_none().then_some(it.id);
                moves.sessions.push((old, it.as_ref()));
            }
            DomainRecord::Ticket(it) => {
                let old = before.tickets.iter().find(|old| old.id == it.id);
                ensure!(
                    !memory.tickets_left.contains(&it.id),
                    "L17",
                    "ticket {} had left the queue and was written again",
                    it.number
                );
                moves.tickets.push((old, it.as_ref()));
            }
            DomainRecord::EnvironmentDeployment(it) => {
                let old = before.deployments.iter().find(|old| old.id == it.id);
                check_deployment(memory, old, it)?;
                moves.deployments.push((old, it.as_ref()));
            }
        }
    }
    let stored = seen.after.session.as_ref().map(|session| session.id);
    ensure!(open == stored, "L1", "two sessions are open, or the open one was lost");
    check_counts(memory, &moves, seen)?;
    check_fences(memory, before, &moves, seen)?;
    Ok(moves)
}

fn check_session(memory: &EnvironmentMemory, old: Option<&Session>, new: &Session) -> LockCheckResult {
    ensure!(
        !memory.ended.contains_key(&new.id),
        "L6",
        "session {} had ended and was written again",
        new.number
    );
    if let Some(old) = old {
        let kept = |it: &Session| {
            (it.number, it.fence, it.holder.clone(), it.claimed_at, it.ttl_seconds, it.idle_seconds)
        };
        ensure!(
            kept(old) == kept(new) && old.environment == new.environment,
            "L6",
            "session {} became another one",
            new.number
        );
    }
    Ok(())
}

/// E1: states change only along the state graph, and final states are final.
fn check_deployment(
    memory: &EnvironmentMemory,
    old: Option<&EnvironmentDeployment>,
    new: &EnvironmentDeployment,
) -> LockCheckResult {
    let number = new.number;
    ensure!(!memory.deployments_ended.contains(&new.id), "E1", "deployment {number} had ended and moved");
    ensure!(
        new.status.is_final() == new.finished_at.is_some(),
        "E1",
        "deployment {number} is {} and its end says otherwise",
        new.status.as_str()
    );
    let Some(old) = old else {
        let fine = matches!(new.status, DeploymentState::Queued | DeploymentState::Cancelled(_));
        ensure!(fine, "E1", "deployment {number} started as {}", new.status.as_str());
        return Ok(());
    };
    let kept = |it: &EnvironmentDeployment| {
        (it.number, it.target.purpose, it.target.fence, it.commit.clone(), it.created_at)
    };
    ensure!(kept(old) == kept(new), "L8", "deployment {number} became another one");
    let may = match (&old.status, &new.status) {
        (DeploymentState::Queued, DeploymentState::Queued | DeploymentState::Running) => true,
        (DeploymentState::Queued, DeploymentState::Cancelled(_) | DeploymentState::Superseded { .. }) => true,
        (
            DeploymentState::Running,
            DeploymentState::Succeeded | DeploymentState::Failed(_) | DeploymentState::Cancelled(_),
        ) => true,
        (DeploymentState::Running, DeploymentState::Cancelling(_)) => old.attempt() == new.attempt(),
        (DeploymentState::Cancelling(was), DeploymentState::Cancelled(cancel)) => was == cancel,
        _ => false,
    };
    ensure!(may, "E1", "deployment {number} went from {} to {}", old.status.as_str(), new.status.as_str());
    Ok(())
}

fn check_counts(
    memory: &EnvironmentMemory,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let environment = &seen.after.environment;
    let mut sessions: Vec<_> = moves.opened_sessions().map(|it| it.number).collect();
    let mut tickets: Vec<_> =
        moves.tickets.iter().filter(|(old, _)| old.is_none()).map(|(_, new)| new.number).collect();
    let mut deployments: Vec<_> = moves.planned_deployments().map(|it| it.number).collect();
    for (what, last, now, new) in [
        ("sessions", memory.sessions, environment.sessions, &mut sessions),
        ("tickets", memory.tickets, environment.tickets, &mut tickets),
        ("deployments", memory.deployments, environment.deployments, &mut deployments),
    ] {
        new.sort_unstable();
        let fine = new.iter().copied().eq(last + 1..=now);
        ensure!(fine, "L7", "{what} are counted {last} to {now}, but {new:?} were made");
    }
    Ok(())
}

/// L2, L7: the fences of sessions and resets are consecutive.
fn check_fences(
    memory: &EnvironmentMemory,
    before: &Lock,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let sessions = moves.opened_sessions().map(|it| (it.fence, it.claimed_at, false));
    let resets = moves.planned_deployments().filter(|it| it.target.purpose == DeploymentPurpose::Reset);
    let mut chain: Vec<_> = sessions.chain(resets.map(|it| (it.target.fence, it.created_at, true))).collect();
    chain.sort_unstable();
    let mut last = memory.fence;
    for (fence, made_at, is_reset) in chain {
        ensure!(fence > last, "L2", "fence {fence} follows {last}");
        ensure!(fence.counter() == last.counter() + 1, "L7", "fence {fence} leaves a gap after {last}");
        let epoch = last.epoch().max(seen.step.moment.epoch);
        ensure!(fence.epoch() == epoch, "L2", "fence {fence} has not epoch {epoch}");
        ensure!(made_at == seen.step.moment.now, "L7", "fence {fence} was given at another time");
        if is_reset {
            check_reset_follows(before, moves, fence)?;
        }
        last = fence;
    }
    ensure!(
        seen.after.environment.fence == last,
        "L7",
        "the environment is at {} but the last number given is {last}",
        seen.after.environment.fence
    );
    Ok(())
}

fn check_reset_follows(before: &Lock, moves: &StepChanges<'_>, fence: Fence) -> LockCheckResult {
    let last = before.session.as_ref().map(|session| session.id);
    let planner = moves.ended_sessions().find(|it| it.fence.counter() + 1 == fence.counter());
    let fine =
        planner.is_some_and(|it| Some(it.id) == last || moves.opened_sessions().any(|new| new.id == it.id));
    ensure!(fine, "L7", "reset {fence} does not follow the session whose end planned it");
    Ok(())
}
