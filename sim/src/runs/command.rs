//! Commands as data, so that a sequence can be printed, shortened and repeated.

use std::collections::BTreeMap;
use std::fmt;

use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{AttemptOutcome, OutcomeResolution};
use berth_core::deployment::{ExecutionFailure, FailureCode};

/// Selects a step by its position among the steps in a certain state, modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPick {
    Ready(u8),
    Live(u8),
    Waiting(u8),
    Any(u8),
}

/// The nonce of a request for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantNonce {
    Fresh,
    /// The nonce of the step's last attempt, as in a repeated request.
    Again,
}

/// The nonce of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportNonce {
    Right,
    /// The nonce of an attempt that has already ended.
    Old,
    Foreign,
}

/// Selects a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichStage {
    Failed,
    Any(u8),
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulatedEnd {
    Succeeded,
    Failed,
    Stopped,
    Interrupted,
    Lost,
    NeverStarted,
}

/// One command of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum RunCommand {
    Grant {
        step: StepPick,
        nonce: GrantNonce,
    },
    Report {
        step: StepPick,
        nonce: ReportNonce,
        ends: SimulatedEnd,
    },
    Heartbeat {
        step: StepPick,
        nonce: ReportNonce,
    },
    Cancel,
    CancelStage {
        stage: u8,
    },
    Retry {
        stage: WhichStage,
        from: RetryStart,
    },
    Resolve {
        step: StepPick,
        resolution: OutcomeResolution,
    },
    Enter,
    /// Supersedes the run: a newer deployment wants to enter the stage that this one waits for.
    Superseded,
    AdvanceClock {
        micros: i64,
    },
    /// Moves the clock to the moment when a step may be granted, or to just before it.
    AdvanceUntilReady {
        offset_micros: i64,
    },
    /// Crashes the process, possibly between a decision and its write. Live attempts are lost.
    Crash {
        undone: Option<Box<RunCommand>>,
        ends: SimulatedEnd,
    },
}

impl SimulatedEnd {
    pub const ALL: [SimulatedEnd; 6] = [
        SimulatedEnd::Succeeded,
        SimulatedEnd::Failed,
        SimulatedEnd::Stopped,
        SimulatedEnd::Interrupted,
        SimulatedEnd::Lost,
        SimulatedEnd::NeverStarted,
    ];

    /// Returns the outcome as a runner reports it. `name` distinguishes the outputs of different steps.
    pub fn outcome(self, name: &str) -> AttemptOutcome {
        match self {
            SimulatedEnd::Succeeded => {
                let outputs = BTreeMap::from([("of".to_owned(), name.to_owned())]);
                AttemptOutcome::Succeeded { outputs, artifacts: BTreeMap::new() }
            }
            SimulatedEnd::Failed => {
                let failure =
                    ExecutionFailure { cause: FailureCode::StepFailed, detail: "exit code 1".into() };
                AttemptOutcome::Failed { failure, exit_code: Some(1) }
            }
            SimulatedEnd::Stopped => AttemptOutcome::Stopped,
            SimulatedEnd::Interrupted => AttemptOutcome::Interrupted,
            SimulatedEnd::Lost => AttemptOutcome::Lost,
            SimulatedEnd::NeverStarted => AttemptOutcome::never_started("no disk".into()),
        }
    }

    /// Whether the outcome is unknown.
    pub const fn is_unknown(self) -> bool {
        matches!(self, SimulatedEnd::Stopped | SimulatedEnd::Interrupted | SimulatedEnd::Lost)
    }
}

impl fmt::Display for RunCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunCommand::Grant { step, nonce } => write!(f, "grant {step:?}, nonce {nonce:?}"),
            RunCommand::Report { step, nonce, ends } => {
                write!(f, "report {step:?} {ends:?}, nonce {nonce:?}")
            }
            RunCommand::Heartbeat { step, nonce } => write!(f, "a heartbeat of {step:?}, nonce {nonce:?}"),
            RunCommand::Cancel => f.write_str("cancel"),
            RunCommand::CancelStage { stage } => write!(f, "cancel stage {stage}"),
            RunCommand::Retry { stage, from } => write!(f, "retry stage {stage:?} from {from:?}"),
            RunCommand::Resolve { step, resolution } => write!(f, "resolve {step:?}: {resolution:?}"),
            RunCommand::Enter => f.write_str("enter"),
            RunCommand::Superseded => f.write_str("overtaken"),
            RunCommand::AdvanceClock { micros } => write!(f, "{micros} µs pass"),
            RunCommand::AdvanceUntilReady { offset_micros } => write!(f, "until ready {offset_micros:+} µs"),
            RunCommand::Crash { undone: None, ends } => write!(f, "crash, what is live ends as {ends:?}"),
            RunCommand::Crash { undone: Some(command), ends } => {
                write!(f, "crash before the commit of: {command}; what is live ends as {ends:?}")
            }
        }
    }
}
