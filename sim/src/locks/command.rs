//! Commands as data. They name records by position, so that they mean the same on every backend.

use std::fmt;

use berth_core::environment::deploy::ConflictMode;
use berth_core::environment::force::TakeoverMode;

use super::cast;

/// 0 is `qa`, 1 is `plain`.
pub type EnvironmentIndex = u8;

/// One command of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockCommand {
    /// A request; the rules decide.
    Ask { place: EnvironmentIndex, ask: LockRequest },
    /// Both load, then the first writes and the second tries to. It is rejected if the first changed anything, and
    /// retries.
    Race { place: EnvironmentIndex, first: LockRequest, second: LockRequest },
    /// A change around the locks.
    Turn(WorldChange),
}

/// A request. People and runners are named by number; a runner's number is its nonce as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockRequest {
    Claim {
        by: u8,
        commit: Option<u8>,
        deploy: bool,
        ttl_seconds: Option<i64>,
        wait_seconds: Option<i64>,
    },
    Extend {
        by: u8,
        session: WhichSession,
        ttl_seconds: Option<i64>,
        stale_fence: Option<bool>,
    },
    Release {
        by: u8,
        session: WhichSession,
        may_force: bool,
        stale_fence: Option<bool>,
    },
    /// `stale_fence`: `If-Match` was sent, and whether it is out of date.
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
    /// A heartbeat.
    Beat {
        deployment: WhichDeployment,
        nonce: WhichNonce,
    },
    /// Processes what is due.
    Sweep,
    /// The definition declares it again, possibly with the configuration of the other environment.
    Redeclare {
        words: EnvironmentIndex,
    },
    Undeclare,
    /// Deletes its pipeline.
    Delete {
        by: u8,
    },
    /// Creates a pipeline and an environment with the same names after a deletion.
    Recreate,
}

/// Names a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichSession {
    /// The active one, or else the last.
    Current,
    /// Counted from the last.
    Back(u8),
}

/// Names a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichTicket {
    /// By position in the queue.
    Waiting(u8),
    /// Counted from the last.
    Back(u8),
}

/// Names a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichDeployment {
    /// What a runner would be granted.
    Startable,
    /// Among those that may be running.
    Live(u8),
    Queued(u8),
    Reset,
    /// Counted from the last.
    Back(u8),
    Numbered(i64),
}

/// Names the nonce of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichNonce {
    /// The one it was granted with.
    Right,
    /// That of a runner.
    Of(u16),
}

/// What a runner reports; the rules decide what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedOutcome {
    Succeeded,
    Failed,
    Stopped,
    Lost,
}

/// A change of the clock, tokens, pipelines or the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldChange {
    Advance {
        micros: i64,
    },
    /// Moves the clock forward to a relevant moment, plus some microseconds.
    To {
        place: EnvironmentIndex,
        due: DueMoment,
        offset_micros: i64,
    },
    /// Sets the clock back.
    Back {
        seconds: i64,
    },
    RevokePerson(u8),
    RevokeToken(u8),
    Stop,
    Resume,
    /// Whether the head of the tracked branch is known.
    Track(bool),
    RaiseEpoch,
}

/// A moment at which something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueMoment {
    Expiry,
    Idle,
    /// Of the first ticket.
    Ticket,
    Takeover,
    /// Whichever is due next in the environment.
    Next,
}

impl fmt::Display for LockCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockCommand::Ask { place, ask } => write!(f, "{}: {ask}", cast::PLACES[usize::from(*place)]),
            LockCommand::Race { place, first, second } => {
                write!(f, "{}: {first} || {second}", cast::PLACES[usize::from(*place)])
            }
            LockCommand::Turn(turn) => write!(f, "{turn:?}"),
        }
    }
}

impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |person: u8| cast::PEOPLE[usize::from(person)];
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
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
    /// The person of the request, to be replaced.
    pub(crate) const fn person_mut(&mut self) -> Option<&mut u8> {
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
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

    /// The person of the request.
    pub const fn person(&self) -> Option<u8> {
        match self {
            LockRequest::Claim { by, .. }
            | LockRequest::Extend { by, .. }
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
