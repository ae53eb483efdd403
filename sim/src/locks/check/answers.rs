//! Checks the responses to people and runners: a success has taken effect, and a refusal has a reason and names the
//! holder.

use berth_core::decision::CommandRefusal;
use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use berth_core::environment::claim::ClaimOutcome;
use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::force::TakeoverMode;
use berth_core::environment::limits::{DEPLOYMENTS_UNFINISHED_MAX, TICKETS_WAITING_MAX};
use berth_core::environment::release::ReleaseOutcome;
use berth_core::environment::{Lock, Session, SessionEndReason, Ticket};

use super::clock::is_busy;
use super::moves::StepChanges;
use super::{EnvironmentMemory, LockCheckResult, ObservedStep, ensure, work};
use crate::locks::answer::LockAnswer;
use crate::locks::command::{LockRequest, ReportedOutcome};
use crate::locks::fixtures;

pub(super) fn check(
    memory: &EnvironmentMemory,
    before: &Lock,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    match (&seen.step.request, &seen.step.decision.answer) {
        (_, LockAnswer::Refused(refusal)) => check_refusal(memory, before, refusal, seen),
        (request, LockAnswer::Claimed(claimed)) => check_claimed(before, request, claimed, moves, seen),
        (_, LockAnswer::Released(released)) => check_released(memory, released, moves, seen),
        (request, LockAnswer::Session(session)) => check_session(request, session, moves, seen),
        (LockRequest::Deploy { by, on_conflict, .. }, LockAnswer::Deployment(it)) => {
            check_deploy(before, *by, *on_conflict, it, seen)
        }
        (LockRequest::Grant { .. }, LockAnswer::Deployment(it)) => {
            let attempt = it.attempt().map(|attempt| &attempt.nonce);
            let fine = attempt == seen.step.subject.nonce.as_ref() && seen.after.deployments.contains(it);
            ensure!(fine, "E2", "a granted attempt is not stored");
            Ok(())
        }
        (LockRequest::Cancel { .. }, LockAnswer::Deployment(it)) => {
            let fine = it.status.is_final() || matches!(it.status, DeploymentState::Cancelling(_));
            ensure!(fine, "E9", "deployment {} is {} after its cancellation", it.number, it.status.as_str());
            Ok(())
        }
        (LockRequest::Leave { .. }, LockAnswer::Ticket(it)) => {
            let waits = seen.after.tickets.iter().any(|other| other.id == it.id);
            ensure!(!waits, "L17", "ticket {} was cancelled and is still queued", it.number);
            Ok(())
        }
        (LockRequest::Report { outcome, .. }, LockAnswer::Order(order)) => {
            check_report(before, *outcome, *order, moves, seen)
        }
        (LockRequest::Heartbeat { .. }, LockAnswer::Order(order)) => check_heartbeat(before, *order, seen),
        _ => Ok(()),
    }
}

fn is_active_session(lock: &Lock, session: &Session) -> bool {
    lock.session.as_ref().is_some_and(|active| active.id == session.id)
}

fn check_claimed(
    before: &Lock,
    request: &LockRequest,
    claimed: &ClaimOutcome,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    match claimed {
        ClaimOutcome::Session(opened) => {
            ensure!(
                is_active_session(seen.after, &opened.session),
                "L3",
                "a claim succeeded, but another session is active"
            );
            let by = request.person().map(|person| fixtures::person(person).id);
            ensure!(by == Some(opened.session.holder.id), "L3", "a claim succeeded for a different person");
            let wanted = match request {
                LockRequest::Claim { commit, deploy, .. } => commit.filter(|_| *deploy),
                LockRequest::Force { commit, .. } => *commit,
                _ => None,
            };
            let planned = moves.planned_deployments().find(|it| Some(it.id) == opened.deployment);
            let fine = planned.map(|it| it.commit.clone()) == wanted.map(fixtures::commit);
            ensure!(fine, "claim", "commit {wanted:?} was wished, {planned:?} is deployed");
            if let (LockRequest::Force { .. }, Some(expected)) = (request, seen.step.subject.expected) {
                let mut taken = moves.ended_sessions();
                let fine = taken.any(|it| {
                    it.fence == expected
                        && it.end.as_ref().is_some_and(|end| end.reason == SessionEndReason::Overridden)
                });
                ensure!(fine, "L5", "a forced claim for fence {expected} took something else");
            }
        }
        ClaimOutcome::Ticket(ticket) => check_queued(before, request, ticket, seen)?,
    }
    Ok(())
}

fn check_queued(
    before: &Lock,
    request: &LockRequest,
    ticket: &Ticket,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(holder) = &seen.after.session else {
        ensure!(false, "L3", "a claim was queued for a free environment");
        return Ok(());
    };
    let is_there = seen.after.tickets.contains(ticket);
    ensure!(is_there, "L17", "a ticket was given that does not wait");
    let now = seen.step.moment.now;
    match (request, &ticket.takeover) {
        (LockRequest::Claim { wait_seconds: Some(seconds), .. }, None) => {
            let last = seen.after.tickets.last().map(|it| it.id);
            ensure!(last == Some(ticket.id), "L17", "a new ticket is not the last in the queue");
            let fine = ticket.expires_at == now.plus_seconds(*seconds);
            ensure!(fine, "L17", "a ticket's expiry differs from the request");
        }
        (LockRequest::Force { mode, .. }, Some(plan)) => {
            ensure!(plan.target == holder.id, "L5", "a take-over targets a different session");
            let expected = seen.step.subject.expected;
            ensure!(expected.is_none_or(|it| it == holder.fence), "L5", "a takeover ignores its fence");
            let runs = is_live(before, holder);
            let fine = match mode {
                TakeoverMode::Now => false,
                TakeoverMode::Grace { seconds } => plan.at == Some(now.plus_seconds(*seconds)),
                TakeoverMode::AfterCurrentDeployment => plan.at.is_none() && runs,
            };
            ensure!(fine, "L5", "a takeover {mode:?} is planned for {:?}", plan.at);
        }
        _ => ensure!(false, "L3", "a ticket without a request"),
    }
    Ok(())
}

fn is_live(lock: &Lock, session: &Session) -> bool {
    let mut all = lock.deployments.iter();
    all.any(|it| it.target.purpose == DeploymentPurpose::Session(session.id) && it.attempt().is_some())
}

/// L4: the session has just ended, or it had ended before and is unchanged.
fn check_released(
    memory: &EnvironmentMemory,
    released: &ReleaseOutcome,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(named) = &seen.step.subject.session else { return Ok(()) };
    let session = &released.session;
    ensure!(session.id == named.id, "L4", "session {} was named, {} answered", named.number, session.number);
    ensure!(
        !is_active_session(seen.after, named),
        "L4",
        "session {} was released and still holds",
        named.number
    );
    let ended_now = moves.ended_sessions().find(|it| it.id == named.id);
    let reason = ended_now.and_then(|it| it.end.as_ref()).map(|end| end.reason);
    ensure!(
        released.released == (reason == Some(SessionEndReason::Released)),
        "L4",
        "released is {} and the end is {reason:?}",
        released.released
    );
    let record = ended_now.or_else(|| memory.ended.get(&named.id));
    ensure!(record == Some(session), "L4", "the answer is not the record of session {}", named.number);
    Ok(())
}

fn check_session(
    request: &LockRequest,
    session: &Session,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(named) = &seen.step.subject.session else { return Ok(()) };
    ensure!(is_active_session(seen.after, session), "L8", "a returned session is not active");
    let by = request.person().map(|person| fixtures::person(person).id);
    ensure!(by == Some(named.holder.id), "holder", "a request of a person other than the holder succeeded");
    match request {
        LockRequest::Extend { .. } => {
            let fine = session.id == named.id && session.extensions == named.extensions + 1;
            ensure!(fine, "L16", "an extension is not counted");
            let nearer = named.expires_at.is_some_and(|at| session.expires_at.is_none_or(|new| new < at));
            ensure!(!nearer, "L21", "an extension brought the end nearer");
        }
        LockRequest::RenewLease { .. } => {
            let fine = session.id == named.id && session.lease_expires_at >= named.lease_expires_at;
            ensure!(fine, "L21", "a heartbeat brought the end of the lease nearer");
        }
        LockRequest::HandOver { by, to, .. } => {
            ensure!(by != to, "L5", "a session was handed over to its holder");
            let ended = moves.ended_sessions().find(|it| it.id == named.id);
            let successor = ended.and_then(|it| it.end.as_ref()).and_then(|end| end.successor);
            ensure!(successor == Some(session.id), "L5", "a hand-over does not name its successor");
        }
        _ => {}
    }
    Ok(())
}

fn check_deploy(
    before: &Lock,
    by: u8,
    on_conflict: ConflictMode,
    deployment: &EnvironmentDeployment,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(session) = seen.after.session.as_ref() else {
        ensure!(false, "L8", "a deployment was accepted without an active session");
        return Ok(());
    };
    let named = seen.step.subject.session.as_ref().map(|it| it.id);
    let fine =
        named == Some(session.id) && deployment.target.purpose == DeploymentPurpose::Session(session.id);
    ensure!(fine, "L8", "a deployment was accepted for a session that is not active");
    ensure!(session.holder.id == fixtures::person(by).id, "holder", "a person other than the holder deploys");
    ensure!(seen.after.deployments.contains(deployment), "L8", "an accepted deployment is not there");
    ensure!(
        session.commit.as_ref() == Some(&deployment.commit),
        "deploy",
        "the session names another commit"
    );
    let busy = is_busy(before, session.id);
    ensure!(on_conflict != ConflictMode::Reject || !busy, "deploy", "a conflict was not rejected");
    let own = seen.after.deployments.iter().filter(|it| it.target.purpose == deployment.target.purpose);
    let waiting = own.filter(|it| it.status == DeploymentState::Queued && it.id != deployment.id).count();
    ensure!(
        on_conflict != ConflictMode::Supersede || waiting == 0,
        "deploy",
        "{waiting} were not superseded"
    );
    Ok(())
}

/// L10: a report counts, and is stored, if and only if it is from the current attempt and its session is active.
fn check_report(
    before: &Lock,
    outcome: ReportedOutcome,
    order: RunnerOrder,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let subject = &seen.step.subject;
    let Some(named) = &subject.deployment else { return Ok(()) };
    let attempt = named.attempt();
    let is_right = attempt.is_some_and(|attempt| Some(&attempt.nonce) == subject.nonce.as_ref());
    let stored = moves.deployments.iter().find(|(_, it)| it.id == named.id).map(|(_, it)| &it.status);
    if !is_right {
        let fine = order == RunnerOrder::Stale
            && stored.is_none_or(|it| !matches!(it, DeploymentState::Succeeded | DeploymentState::Failed(_)));
        ensure!(fine, "L10", "a report without the right nonce was heard");
        return Ok(());
    }
    let is_over = stored.is_some_and(DeploymentState::is_final);
    ensure!(is_over, "drain", "{outcome:?} was reported of deployment {}, which continues", named.number);
    let counted = matches!(stored, Some(DeploymentState::Succeeded | DeploymentState::Failed(_)));
    let fine = (order == RunnerOrder::Continue) == counted;
    ensure!(fine, "L10", "a report got {order:?}; stored: {counted}");
    let runs = before
        .deployments
        .iter()
        .any(|it| it.id == named.id && matches!(it.status, DeploymentState::Running));
    ensure!(runs || !counted, "E9", "deployment {} was told to stop, and {outcome:?} counted", named.number);
    Ok(())
}

fn check_heartbeat(before: &Lock, order: RunnerOrder, seen: &ObservedStep<'_>) -> LockCheckResult {
    let subject = &seen.step.subject;
    let Some(named) = &subject.deployment else { return Ok(()) };
    let attempt = named.attempt();
    let is_right = attempt.is_some_and(|attempt| Some(&attempt.nonce) == subject.nonce.as_ref());
    let is_current = match named.target.purpose {
        DeploymentPurpose::Reset => true,
        DeploymentPurpose::Session(id) => before.session.as_ref().is_some_and(|it| it.id == id),
    };
    let expected = match &named.status {
        _ if !is_right => RunnerOrder::Stale,
        DeploymentState::Running if is_current => RunnerOrder::Continue,
        _ => RunnerOrder::Cancel,
    };
    ensure!(order == expected, "L10", "a heartbeat got {order:?} instead of {expected:?}");
    Ok(())
}

fn check_refusal(
    memory: &EnvironmentMemory,
    before: &Lock,
    refusal: &CommandRefusal,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let (request, lock) = (&seen.step.request, seen.after);
    let by = request.person().map(|person| fixtures::person(person).id);
    let named = seen.step.subject.session.as_ref();
    match refusal {
        CommandRefusal::EnvironmentLocked(locked) => {
            let facts = |it: &Session| (it.id, it.fence, it.holder.clone(), it.commit.clone(), it.expires_at);
            let fine = lock.session.as_ref().map(facts) == Some(facts(&locked.session));
            ensure!(fine, "L3", "a refusal does not name the holder");
            let is_self = by == Some(locked.session.holder.id);
            ensure!(locked.is_self == is_self, "L3", "self is {} in a refusal", locked.is_self);
            ensure!(locked.queue_length == lock.tickets.len(), "L3", "a refusal has the wrong queue length");
            ensure!(
                matches!(request, LockRequest::Claim { wait_seconds: None, .. }),
                "L3",
                "refused, and would have waited"
            );
        }
        CommandRefusal::SessionNotActive(told) => {
            let is_over =
                named.is_some_and(|named| !is_active_session(lock, named) && told.session.id == named.id);
            ensure!(is_over, "L8", "an active session is called ended");
            let record = memory.ended.get(&told.session.id);
            let fine = told.session.end.is_some() && record.is_none_or(|it| *it == told.session);
            ensure!(fine, "L8", "a refusal does not tell how the session ended");
            ensure!(told.current_fence == lock.environment.fence, "L8", "a refusal has the wrong fence");
        }
        CommandRefusal::NotSessionHolder(holder) => {
            let owner = match request {
                LockRequest::Leave { .. } => seen.step.subject.ticket.as_ref().map(|it| &it.holder),
                _ => named.filter(|named| is_active_session(lock, named)).map(|it| &it.holder),
            };
            let may_force = matches!(
                request,
                LockRequest::Release { may_force: true, .. } | LockRequest::Leave { may_force: true, .. }
            );
            let fine = owner == Some(holder) && by != Some(holder.id) && !may_force;
            ensure!(fine, "holder", "{} was refused as a stranger", request);
        }
        CommandRefusal::FenceMoved { current } => {
            let holds = lock.session.as_ref().map(|session| session.fence);
            let fine = *current == holds && seen.step.subject.expected != holds;
            ensure!(
                fine,
                "L5",
                "fence {:?} was expected and {current:?} answered",
                seen.step.subject.expected
            );
        }
        CommandRefusal::InvalidState(text) => check_invalid(before, text, seen)?,
        other => ensure!(false, "answers", "an unexpected refusal: {other}"),
    }
    Ok(())
}

fn check_invalid(before: &Lock, text: &str, seen: &ObservedStep<'_>) -> LockCheckResult {
    let lock = seen.after;
    let fine = match &seen.step.request {
        LockRequest::Claim { .. } => {
            !lock.environment.is_declared || lock.tickets.len() >= TICKETS_WAITING_MAX
        }
        LockRequest::Force { mode, .. } => {
            let active = lock.session.as_ref().map(|session| session.id);
            let announced =
                |it: &Ticket| it.takeover.as_ref().is_some_and(|plan| Some(plan.target) == active);
            !lock.environment.is_declared
                || lock.tickets.len() >= TICKETS_WAITING_MAX
                || (*mode != TakeoverMode::Now && lock.tickets.iter().any(announced))
        }
        LockRequest::RenewLease { .. } => {
            seen.step.subject.session.as_ref().is_some_and(|named| named.lease_seconds.is_none())
        }
        LockRequest::HandOver { by, to, .. } => {
            !lock.environment.is_declared || is_announced(lock) || by == to
        }
        LockRequest::Deploy { on_conflict, .. } => {
            let busy = before.session.as_ref().is_some_and(|session| is_busy(before, session.id));
            (*on_conflict == ConflictMode::Reject && busy)
                || lock.deployments.len() >= DEPLOYMENTS_UNFINISHED_MAX
        }
        LockRequest::Grant { .. } => {
            let named = seen.step.subject.deployment.as_ref();
            let present = named.and_then(|named| lock.deployments.iter().find(|it| it.id == named.id));
            present.is_none_or(|it| {
                it.status != DeploymentState::Queued
                    || work::obstacle(it, lock, seen.surroundings.is_paused).is_some()
            })
        }
        _ => false,
    };
    ensure!(fine, "answers", "{} was refused without a reason: {text}", seen.step.request);
    Ok(())
}

/// Returns whether a take-over from the current holder is scheduled.
fn is_announced(lock: &Lock) -> bool {
    let active = lock.session.as_ref().map(|session| session.id);
    let plans = lock.tickets.iter().filter_map(|ticket| ticket.takeover.as_ref());
    plans.into_iter().any(|plan| Some(plan.target) == active)
}
