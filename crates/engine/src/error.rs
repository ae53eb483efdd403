//! Errors of the engine: problems are returned to the caller, faults are logged.

use berth_api::problem::{Code, Problem};
use berth_core::decision::Refusal;
use berth_store::StoreError;

#[derive(Debug)]
pub enum EngineError {
    /// A response for the caller.
    Problem(Box<Problem>),
    /// An internal error; the text is only logged.
    Fault(String),
    Store(StoreError),
}

impl EngineError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub fn busy(detail: &str) -> Self {
        Self::new(Code::Unavailable, detail)
    }

    pub fn bug(detail: impl Into<String>) -> Self {
        Self::Fault(detail.into())
    }
}

impl From<Problem> for EngineError {
    fn from(problem: Problem) -> Self {
        EngineError::Problem(Box::new(problem))
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Store(error)
    }
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::PreconditionFailed { .. } | Refusal::FenceMoved { .. } => Code::PreconditionFailed,
            Refusal::AlreadyExists(_) => Code::AlreadyExists,
            Refusal::InvalidState(_) => Code::InvalidState,
            Refusal::NothingToRollBackTo(_) => Code::NothingToRollBackTo,
            Refusal::Forbidden(_) => Code::Forbidden,
            Refusal::EnvironmentLocked(_) => Code::EnvironmentLocked,
            Refusal::SessionNotActive(_) => Code::SessionNotActive,
            Refusal::NotSessionHolder(_) => Code::NotSessionHolder,
            Refusal::NoSuchStage => Code::NotFound,
            Refusal::ApprovalEnded(_) => Code::ApprovalEnded,
            Refusal::AlreadyVoted(_) => Code::AlreadyVoted,
            Refusal::NotEligible(_) => Code::NotEligible,
        };
        Self::new(code, refusal.to_string())
    }
}
