//! Commands as data. They name records by their place in history, so that they mean the same on every backend.

use std::fmt;

use berth_core::environment::deploy::OnConflict;
use berth_core::environment::force::Mode;

use super::cast;

/// 0 is `qa`, 1 is `plain`.
pub type Place = u8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Somebody asks for something; the rules decide.
    Ask { place: Place, ask: Ask },
    /// Both look, then the first writes, then the second tries to. It may not, if the first changed anything, and asks
    /// anew.
    Race { place: Place, first: Ask, second: Ask },
    /// Something around the locks changes.
    Turn(Turn),
}

/// People and runners are named by number; a runner's number is its nonce too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
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
        mode: Mode,
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
        on_conflict: OnConflict,
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
        nonce: Nonce,
        outcome: Outcomes,
    },
    /// A sign of life: asks what to do.
    Beat {
        deployment: WhichDeployment,
        nonce: Nonce,
    },
    /// What is due is done.
    Sweep,
    /// The definition names it again, perhaps in the words of the other environment.
    Redeclare {
        words: Place,
    },
    Undeclare,
    /// Its pipeline is deleted.
    Delete {
        by: u8,
    },
    /// After that: a pipeline of the same name, with an environment of the same name.
    Recreate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichSession {
    /// The active one, or else the last.
    Current,
    /// The last but so many.
    Back(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichTicket {
    /// So many are before it.
    Waiting(u8),
    /// The last but so many.
    Back(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichDeployment {
    /// What a runner would find.
    Startable,
    /// Of those that may be running.
    Live(u8),
    Queued(u8),
    Reset,
    /// The last but so many.
    Back(u8),
    Numbered(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonce {
    /// The one it was granted under.
    Right,
    /// That of a runner, whoever has it.
    Of(u16),
}

/// What a runner says; which of them it may say, the rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcomes {
    Succeeded,
    Failed,
    Stopped,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Advance {
        micros: i64,
    },
    /// The clock goes to a moment that matters, and so many microseconds further. Never back.
    To {
        place: Place,
        due: Due,
        offset_micros: i64,
    },
    /// The clock is set back.
    Back {
        seconds: i64,
    },
    RevokePerson(u8),
    RevokeToken(u8),
    Stop,
    Resume,
    /// The tracked branch has a head that is known, or not.
    Track(bool),
    RaiseEpoch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Expiry,
    Idle,
    /// Of the first in line.
    Ticket,
    Takeover,
    /// Whatever the environment says is next.
    Next,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Ask { place, ask } => write!(f, "{}: {ask}", cast::PLACES[usize::from(*place)]),
            Command::Race { place, first, second } => {
                write!(f, "{}: {first} || {second}", cast::PLACES[usize::from(*place)])
            }
            Command::Turn(turn) => write!(f, "{turn:?}"),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |person: u8| cast::PEOPLE[usize::from(person)];
        match self {
            Ask::Claim { by, .. }
            | Ask::Extend { by, .. }
            | Ask::Release { by, .. }
            | Ask::Force { by, .. }
            | Ask::HandOver { by, .. }
            | Ask::Deploy { by, .. }
            | Ask::Leave { by, .. }
            | Ask::Cancel { by, .. }
            | Ask::Delete { by } => write!(f, "{} {self:?}", who(*by)),
            _ => write!(f, "{self:?}"),
        }
    }
}
