//! Errors of the engine. Problems are returned to the caller; faults are internal and only logged.

use berth_api::problem::{Code, ProblemDetails};
use berth_core::agent::AgentLimitReached;
use berth_core::decision::CommandRefusal;
use berth_store::StoreError;

#[derive(Debug)]
pub enum EngineError {
    /// An error response for the caller.
    Problem(Box<ProblemDetails>),
    /// An internal error; the text is only logged.
    Fault(String),
    Store(StoreError),
}

impl EngineError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        ProblemDetails::new(code, detail).into()
    }

    pub fn busy(detail: &str) -> Self {
        Self::new(Code::Unavailable, detail)
    }

    pub fn bug(detail: impl Into<String>) -> Self {
        Self::Fault(detail.into())
    }
}

impl From<ProblemDetails> for EngineError {
    fn from(problem: ProblemDetails) -> Self {
        EngineError::Problem(Box::new(problem))
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Store(error)
    }
}

impl From<CommandRefusal> for EngineError {
    fn from(refusal: CommandRefusal) -> Self {
        let code = match refusal {
            CommandRefusal::PreconditionFailed { .. } | CommandRefusal::FenceMoved { .. } => {
                Code::PreconditionFailed
            }
            CommandRefusal::AlreadyExists(_) => Code::AlreadyExists,
            CommandRefusal::InvalidState(_) => Code::InvalidState,
            CommandRefusal::NothingToRollBackTo(_) => Code::NothingToRollBackTo,
            CommandRefusal::Forbidden(_) => Code::Forbidden,
            CommandRefusal::EnvironmentLocked(_) => Code::EnvironmentLocked,
            CommandRefusal::SessionNotActive(_) => Code::SessionNotActive,
            CommandRefusal::NotSessionHolder(_) => Code::NotSessionHolder,
            CommandRefusal::NoSuchStage => Code::NotFound,
            CommandRefusal::ApprovalEnded(_) => Code::ApprovalEnded,
            CommandRefusal::AlreadyVoted(_) => Code::AlreadyVoted,
            CommandRefusal::NotEligible(_) => Code::NotEligible,
            CommandRefusal::AgentLimit(AgentLimitReached { limit, text }) => {
                return ProblemDetails::new(Code::AgentLimit, text).with_member("limit", limit).into();
            }
        };
        Self::new(code, refusal.to_string())
    }
}
