//! Computes when sessions expire, from the requests alone and not from what the rules wrote.
//!
//! An extension moves the expiry, but never to an earlier time, even if the clock was set back. A session with an
//! unfinished deployment is not idle.

use berth_core::deployment::DeploymentPurpose;
use berth_core::environment::limits::WARNING_S_MAX;
use berth_core::environment::{ClaimTerms, Lock, Session, SessionEndReason, TicketState};
use berth_core::id::SessionId;
use berth_core::pipeline::model::ReleaseCondition;
use berth_core::time::Timestamp;

use super::moves::StepChanges;
use super::{EnvironmentMemory, LockCheckResult, ObservedStep, ensure};
use crate::locks::answer::LockAnswer;
use crate::locks::command::LockRequest;

/// What the oracle itself has computed about the active session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionClock {
    pub(super) session: SessionId,
    ttl_seconds: Option<i64>,
    pub(super) expires_at: Option<Timestamp>,
    lease_seconds: Option<i64>,
    pub(super) lease_until: Option<Timestamp>,
    /// The end of the lease when the environment was last written. A heartbeat does not write it.
    pub(super) lease_on_agenda: Option<Timestamp>,
    idle_seconds: Option<i64>,
    active_at: Timestamp,
}

impl SessionClock {
    /// Returns when the session ends and why: at its lease, if that comes before the end that people are told.
    pub(super) fn next_end(&self, is_busy: bool) -> Option<(Timestamp, SessionEndReason)> {
        let lease = self.lease_until.map(|at| (at, SessionEndReason::Lease));
        match (self.expected_end(is_busy), lease) {
            (Some(end), Some(lease)) => Some(if lease.0 < end.0 { lease } else { end }),
            (end, lease) => end.or(lease),
        }
    }

    /// Returns when the session ends and why, apart from its lease. A session with unfinished deployments does not
    /// become idle.
    pub(super) fn expected_end(&self, is_busy: bool) -> Option<(Timestamp, SessionEndReason)> {
        let expiry = self.expires_at.map(|at| (at, SessionEndReason::Expired));
        let idle = self.idle_seconds.filter(|_| !is_busy);
        let idle = idle.map(|seconds| (self.active_at.plus_seconds(seconds), SessionEndReason::Idle));
        match (expiry, idle) {
            (Some(expiry), Some(idle)) => Some(if idle.0 < expiry.0 { idle } else { expiry }),
            (expiry, idle) => expiry.or(idle),
        }
    }

    /// Returns when the end has to be announced, and the time of the end.
    pub(super) fn announcement(&self, is_busy: bool) -> Option<(Timestamp, Timestamp)> {
        let (at, reason) = self.expected_end(is_busy)?;
        let length = if reason == SessionEndReason::Idle { self.idle_seconds } else { self.ttl_seconds };
        let lead = WARNING_S_MAX.min(length? / 5);
        Some((at.plus_seconds(-lead), at))
    }

    fn extend(&mut self, seconds: Option<i64>, now: Timestamp) {
        self.active_at = self.active_at.max(now);
        self.renew_lease(now);
        if let (Some(at), Some(seconds)) = (self.expires_at, seconds.or(self.ttl_seconds)) {
            self.expires_at = Some(at.max(now.plus_seconds(seconds)));
        }
    }

    fn renew_lease(&mut self, now: Timestamp) {
        if let (Some(at), Some(seconds)) = (self.lease_until, self.lease_seconds) {
            self.lease_until = Some(at.max(now.plus_seconds(seconds)));
        }
    }

    fn start(session: &Session, before: &Lock, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> Self {
        let configuration = &before.environment.configuration;
        let granted = moves.granted_tickets().find_map(|ticket| match &ticket.status {
            TicketState::Granted { session: id, .. } if *id == session.id => Some(&ticket.terms),
            _ => None,
        });
        let wished = match (granted, &seen.step.request) {
            (Some(ClaimTerms { ttl_seconds, .. }), _) | (None, LockRequest::Claim { ttl_seconds, .. }) => {
                *ttl_seconds
            }
            // The new session keeps the TTL of the session that is handed over.
            (None, LockRequest::HandOver { .. }) => {
                seen.step.subject.session.as_ref().and_then(|it| it.ttl_seconds)
            }
            _ => None,
        };
        let lease_seconds = match (granted, &seen.step.request) {
            (Some(terms), _) => terms.lease_seconds,
            (None, LockRequest::Claim { lease_seconds, .. }) => *lease_seconds,
            _ => None,
        };
        let default = configuration.ttl.map(|ttl| ttl.as_secs().cast_signed());
        let ttl_seconds = wished.or(default);
        let idle = configuration.release.iter().find_map(|rule| match rule {
            ReleaseCondition::Timeout { after_idle } => Some(after_idle.as_secs().cast_signed()),
            ReleaseCondition::PrClosed => None,
        });
        let now = seen.step.moment.now;
        let lease_until = lease_seconds.map(|seconds| now.plus_seconds(seconds));
        Self {
            session: session.id,
            ttl_seconds,
            expires_at: ttl_seconds.map(|seconds| now.plus_seconds(seconds)),
            lease_seconds,
            lease_until,
            lease_on_agenda: lease_until,
            idle_seconds: idle,
            active_at: now,
        }
    }
}

pub(super) fn is_busy(lock: &Lock, session: SessionId) -> bool {
    lock.deployments.iter().any(|it| it.target.purpose == DeploymentPurpose::Session(session))
}

/// Checks that a session that expired did so on time, and that every overdue session has ended.
pub(super) fn check_ends(
    memory: &EnvironmentMemory,
    before: &Lock,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(clock) = &memory.clock else { return Ok(()) };
    // The response to a heartbeat does not depend on the time, so no session expires in this step.
    if matches!(seen.step.request, LockRequest::Heartbeat { .. }) {
        return Ok(());
    }
    let now = seen.step.moment.now;
    let due = clock.next_end(is_busy(before, clock.session)).filter(|(at, _)| *at <= now);
    let ended = moves.ended_sessions().find(|it| it.id == clock.session);
    let reason = ended.and_then(|it| it.end.as_ref()).map(|end| end.reason);
    match due {
        Some((at, why)) => ensure!(
            reason == Some(why),
            "L17",
            "the session was over since {at} ({}), but what became of it is {reason:?}",
            why.as_str()
        ),
        // The session was not due before this command, so it must not expire in this step, even if the command ended
        // its last deployment.
        None => ensure!(
            !matches!(
                reason,
                Some(SessionEndReason::Expired | SessionEndReason::Idle | SessionEndReason::Lease)
            ),
            "L21",
            "the session was ended as {reason:?} before its time, which is {:?}",
            clock.next_end(is_busy(before, clock.session))
        ),
    }
    Ok(())
}

impl EnvironmentMemory {
    /// Updates the oracle's own state after one step.
    pub(super) fn update_clock(&mut self, before: &Lock, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) {
        let now = seen.step.moment.now;
        if let Some(session) = moves.opened_sessions().find(|it| it.end.is_none()) {
            self.clock = Some(SessionClock::start(session, before, moves, seen));
        } else if let Some(clock) = &mut self.clock {
            match (&seen.step.request, &seen.step.decision.answer) {
                (LockRequest::Extend { ttl_seconds, .. }, LockAnswer::Session(_)) => {
                    clock.extend(*ttl_seconds, now);
                }
                (LockRequest::Deploy { .. }, LockAnswer::Deployment(_)) => clock.extend(None, now),
                _ => {}
            }
            if !seen.step.decision.changes.is_empty() {
                clock.lease_on_agenda = clock.lease_until;
            }
            if let (LockRequest::RenewLease { .. }, LockAnswer::Session(_)) =
                (&seen.step.request, &seen.step.decision.answer)
            {
                clock.renew_lease(now);
            }
            let ours = DeploymentPurpose::Session(clock.session);
            if moves.deployments.iter().any(|(_, it)| it.target.purpose == ours && it.status.is_final()) {
                clock.active_at = clock.active_at.max(now);
            }
        }
        if seen.after.session.is_none() {
            self.clock = None;
        }
    }
}
