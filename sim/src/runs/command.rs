//! Commands as data: they can be printed, removed and repeated.

use std::collections::BTreeMap;
use std::fmt;

use berth_core::deployment::{Cause, Failure};
use berth_core::run::retry::From;
use berth_core::run::{Outcome, Resolution};

/// A step by its position among those in a state, modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Ready(u8),
    Live(u8),
    Waiting(u8),
    Any(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantNonce {
    Fresh,
    /// That of the step's last attempt: a repeated request.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportNonce {
    Right,
    /// Of an attempt that has ended.
    Old,
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichStage {
    Failed,
    Any(u8),
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    Succeeded,
    Failed,
    Stopped,
    Interrupted,
    Lost,
    NeverStarted,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Grant {
        step: Pick,
        nonce: GrantNonce,
    },
    Report {
        step: Pick,
        nonce: ReportNonce,
        ends: Ends,
    },
    Beat {
        step: Pick,
        nonce: ReportNonce,
    },
    Cancel,
    CancelStage {
        stage: u8,
    },
    Retry {
        stage: WhichStage,
        from: From,
    },
    Resolve {
        step: Pick,
        resolution: Resolution,
    },
    Enter,
    /// A newer deployment wants the stage that it waits for.
    Overtaken,
    Pass {
        micros: i64,
    },
    /// To the moment when something may be granted, or just before.
    PassUntilReady {
        offset_micros: i64,
    },
    /// The process crashes, possibly between a decision and its write. Live attempts are lost.
    Crash {
        undone: Option<Box<Command>>,
        ends: Ends,
    },
}

impl Ends {
    pub const ALL: [Ends; 6] =
        [Ends::Succeeded, Ends::Failed, Ends::Stopped, Ends::Interrupted, Ends::Lost, Ends::NeverStarted];

    /// As reported by a runner; `name` distinguishes the outputs of steps.
    pub fn outcome(self, name: &str) -> Outcome {
        match self {
            Ends::Succeeded => {
                let outputs = BTreeMap::from([("of".to_owned(), name.to_owned())]);
                Outcome::Succeeded { outputs, artifacts: BTreeMap::new() }
            }
            Ends::Failed => {
                let failure = Failure { cause: Cause::StepFailed, detail: "exit code 1".into() };
                Outcome::Failed { failure, exit_code: Some(1) }
            }
            Ends::Stopped => Outcome::Stopped,
            Ends::Interrupted => Outcome::Interrupted,
            Ends::Lost => Outcome::Lost,
            Ends::NeverStarted => Outcome::never_started("no disk".into()),
        }
    }

    /// Whether the outcome is unknown.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Ends::Stopped | Ends::Interrupted | Ends::Lost)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Grant { step, nonce } => write!(f, "grant {step:?}, nonce {nonce:?}"),
            Command::Report { step, nonce, ends } => {
                write!(f, "report {step:?} {ends:?}, nonce {nonce:?}")
            }
            Command::Beat { step, nonce } => write!(f, "a sign of life of {step:?}, nonce {nonce:?}"),
            Command::Cancel => f.write_str("cancel"),
            Command::CancelStage { stage } => write!(f, "cancel stage {stage}"),
            Command::Retry { stage, from } => write!(f, "retry stage {stage:?} from {from:?}"),
            Command::Resolve { step, resolution } => write!(f, "resolve {step:?}: {resolution:?}"),
            Command::Enter => f.write_str("enter"),
            Command::Overtaken => f.write_str("overtaken"),
            Command::Pass { micros } => write!(f, "{micros} µs pass"),
            Command::PassUntilReady { offset_micros } => write!(f, "until ready {offset_micros:+} µs"),
            Command::Crash { undone: None, ends } => write!(f, "crash, what is live ends as {ends:?}"),
            Command::Crash { undone: Some(command), ends } => {
                write!(f, "crash before the commit of: {command}; what is live ends as {ends:?}")
            }
        }
    }
}
