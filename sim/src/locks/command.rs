//! Commands as data. They refer to records by position, not by id, so that they have the same meaning on every backend.

use std::fmt;

use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::force::TakeoverMode;

use super::fixtures;

/// Index of an environment: 0 is `qa`, 1 is `plain`.
pub type EnvironmentIndex = u8;

/// One command of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockCommand {
    /// A request, which the rules accept or refuse.
    Request { place: EnvironmentIndex, request: LockRequest },
    /// Both requests load the state, then the first writes and the second tries to. If the first changed anything, the
    /// second is rejected and retries.
    Race { place: EnvironmentIndex, first: LockRequest, second: LockRequest },
    /// A change to the surroundings of the locks, for example to the clock.
    Change(WorldChange),
}

/// A request. People and runners are identified by a number, which for a runner is also its nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockRequest {
    Claim {
        by: u8,
        commit: Option<u8>,
        deploy: bool,
        ttl_seconds: Option<i64>,
        lease_seconds: Option<i64>,
        wait_seconds: Option<i64>,
    },
    Extend {
        by: u8,
        session: WhichSession,
        ttl_seconds: Option<i64>,
        stale_fence: Option<bool>,
    },
    /// A heartbeat of a session's holder.
    RenewLease {
        by: u8,
        session: WhichSession,
    },
    Release {
        by: u8,
        session: WhichSession,
        may_force: bool,
        stale_fence: Option<bool>,
    },
    /// `stale_fence`: `None` if `If-Match` is not sent, otherwise whether its value is out of date.
    Force {
        by: u8,
        commit: Option<u8>,
        mode: TakeoverMode,
        stale_fence: Option<bool>,
    },
    HandOver {
        by: u8,
        session: WhichSession,
        to: u8,
    },
    Deploy {
        by: u8,
        session: WhichSession,
        commit: u8,
        on_conflict: ConflictMode,
        override_drain: bool,
    },
    Leave {
        by: u8,
        ticket: WhichTicket,
        may_force: bool,
    },
    Cancel {
        by: u8,
        deployment: WhichDeployment,
    },
    Grant {
        runner: u16,
        deployment: WhichDeployment,
    },
    Report {
        deployment: WhichDeployment,
        nonce: WhichNonce,
        outcome: ReportedOutcome,
    },
    /// A heartbeat of a runner.
    Heartbeat {
        deployment: WhichDeployment,
        nonce: WhichNonce,
    },
    /// Processes everything that is due, such as expired sessions.
    Sweep,
    /// Declares the environment again, possibly with the configuration of the other environment (`words`).
    Redeclare {
        words: EnvironmentIndex,
    },
    Undeclare,
    /// Deletes the environment's pipeline.
    Delete {
        by: u8,
    },
    /// After a deletion, creates a pipeline and an environment with the same names.
    Recreate,
}

/// Identifies a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichSession {
    /// The active session, or else the last one.
    Current,
    /// Counted backwards from the last session.
    Back(u8),
}

/// Identifies a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichTicket {
    /// By position in the queue.
    Waiting(u8),
    /// Counted backwards from the last ticket.
    Back(u8),
}

/// Identifies a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichDeployment {
    /// The deployment that a runner would be granted.
    Startable,
    /// By position among the deployments that may be running.
    Live(u8),
    Queued(u8),
    Reset,
    /// Counted backwards from the last deployment.
    Back(u8),
    Numbered(i64),
}

/// Selects the nonce of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichNonce {
    /// The nonce that the attempt was granted with.
    Granted,
    /// The nonce of the runner with this number.
    OfRunner(u16),
}

/// An outcome reported by a runner; the rules decide whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedOutcome {
    Succeeded,
    Failed,
    Stopped,
    Lost,
}

/// A change to the clock, a token, the pipeline, the tracked branch or the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldChange {
    Advance {
        micros: i64,
    },
    /// Moves the clock forward to the time when `due` occurs in this environment, plus `offset_micros`, which may be
    /// negative. Never moves the clock back.
    AdvanceTo {
        place: EnvironmentIndex,
        due: DueMoment,
        offset_micros: i64,
    },
    /// Sets the clock back.
    SetBack {
        seconds: i64,
    },
    RevokePerson(u8),
    RevokeToken(u8),
    Stop,
    Resume,
    /// Sets whether the head of the tracked branch is known.
    Track(bool),
    RaiseEpoch,
}

/// A moment at which something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueMoment {
    Expiry,
    Idle,
    Lease,
    /// The expiry of the first ticket.
    Ticket,
    Takeover,
    /// Whatever is due next in the environment.
    Next,
}

impl fmt::Display for LockCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockCommand::Request { place, request } => {
                write!(f, "{}: {request}", fixtures::PLACES[usize::from(*place)])
            }
            LockCommand::Race { place, first, second } => {
                write!(f, "{}: {first} || {second}", fixtures::PLACES[usize::from(*place)])
            }
            LockCommand::Change(turn) => write!(f, "{turn:?}"),
        }
    }
}

impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |person: u8| fixtures::PEOPLE[usize::from(person)];
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
            | LockRequest::RenewLease { by, .. }
            | LockRequest::Release { by, .. }
            | LockRequest::Force { by, .. }
            | LockRequest::HandOver { by, .. }
            | LockRequest::Deploy { by, .. }
            | LockRequest::Leave { by, .. }
            | LockRequest::Cancel { by, .. }
            | LockRequest::Delete { by } => write!(f, "{} {self:?}", who(*by)),
            _ => write!(f, "{self:?}"),
        }
    }
}

impl LockRequest {
    /// Returns a mutable reference to the person who makes the request.
    pub(crate) const fn person_mut(&mut self) -> Option<&mut u8> {
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
            | LockRequest::RenewLease { by, .. }
            | LockRequest::Release { by, .. }
            | LockRequest::Force { by, .. }
            | LockRequest::HandOver { by, .. }
            | LockRequest::Deploy { by, .. }
            | LockRequest::Leave { by, .. }
            | LockRequest::Cancel { by, .. }
            | LockRequest::Delete { by } => Some(by),
            _ => None,
        }
    }

    /// Returns the person who makes the request.
    pub const fn person(&self) -> Option<u8> {
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
            | LockRequest::RenewLease { by, .. }
            | LockRequest::Release { by, .. }
            | LockRequest::Force { by, .. }
            | LockRequest::HandOver { by, .. }
            | LockRequest::Deploy { by, .. }
            | LockRequest::Leave { by, .. }
            | LockRequest::Cancel { by, .. }
            | LockRequest::Delete { by } => Some(*by),
            _ => None,
        }
    }
}
