//! Errors of use cases. Refusals become responses. Internal errors are logged here, once, with details that clients do
//! not see.

use std::time::Duration;

use berth_api::problem::{Code, InputError, InputErrorCode, ProblemDetails};
use berth_core::access::{AccessTarget, Action};
use berth_core::decision::CommandRefusal;
use berth_engine::error::EngineError;
use berth_engine::vault::KeyError;
use berth_store::StoreError;

#[derive(Debug)]
pub enum AppError {
    /// An error to report to the caller.
    Problem(Box<ProblemDetails>),
    /// An internal error. The text goes only to the log.
    Fault(String),
    Store(StoreError),
}

impl AppError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        ProblemDetails::new(code, detail).into()
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("{what} not found"))
    }

    pub fn invalid(errors: Vec<InputError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{} {}", one.pointer, one.detail),
            many => format!("{} fields are not valid", many.len()),
        };
        let has_unknown = errors.iter().any(|error| error.code == InputErrorCode::UnknownMember);
        let code = if has_unknown { Code::UnknownMember } else { Code::InvalidRequest };
        ProblemDetails::new(code, detail).with_errors(errors).into()
    }

    pub fn invalid_member(pointer: &str, detail: impl Into<String>) -> Self {
        Self::invalid(vec![input_error(pointer, detail)])
    }

    pub fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        let error =
            InputError { pointer: name.to_owned(), code: InputErrorCode::Invalid, detail: detail.into() };
        let text = format!("parameter {name} {}", error.detail);
        ProblemDetails::new(Code::InvalidParameter, text).with_errors(vec![error]).into()
    }

    /// The caller lacks a permission, for a resource or for the whole organization.
    pub fn forbidden(action: Action, on: Option<&AccessTarget>) -> Self {
        let scope = on.map_or_else(|| AccessTarget::Organization.to_string(), ToString::to_string);
        let text = match on {
            None | Some(AccessTarget::Organization) => format!("this requires the {action} permission"),
            Some(_) => format!("this requires the {action} permission on {scope}"),
        };
        ProblemDetails::new(Code::Forbidden, text)
            .with_member("permission", action.as_str())
            .with_member("scope", scope)
            .into()
    }

    /// The organization requires a second factor, and the caller's account has none.
    pub fn second_factor_required() -> Self {
        let text = "this organization requires a second factor, and your account has none; log in to the dashboard and \
                    set one up under Profile";
        Self::new(Code::SecondFactorRequired, text)
    }

    /// The caller has sent too many requests, and may send the next one after `wait`.
    pub fn rate_limited(wait: Duration) -> Self {
        let seconds = wait.as_secs() + 1;
        let text = format!("too many requests; wait {seconds} s");
        ProblemDetails::new(Code::RateLimited, text).with_member("retryAfterSeconds", seconds).into()
    }

    pub fn unauthenticated(detail: &str) -> Self {
        Self::new(Code::Unauthenticated, detail)
    }

    pub fn busy(detail: &str) -> Self {
        Self::new(Code::Unavailable, detail)
    }

    pub fn bug(detail: impl Into<String>) -> Self {
        Self::Fault(detail.into())
    }

    /// Returns why `action` was denied, if the denial belongs in the audit log. It does if it is a 403, except for a
    /// missing password confirmation or second factor, or a takeover or approval vote that the current state does not allow.
    pub fn denial_reason(&self, action: Action) -> Option<DenialReason> {
        let AppError::Problem(problem) = self else { return None };
        let is_grave = matches!(action, Action::EnvironmentsForceClaim | Action::ApprovalsDecide);
        if is_grave && problem.status == Code::InvalidState.status() {
            return Some(DenialReason::Code(problem.code.clone()));
        }
        let named = problem.more.get("permission").and_then(serde_json::Value::as_str);
        let named = Action::ALL.iter().find(|action| named == Some(action.as_str()));
        let denied = match named {
            Some(action) => DenialReason::Permission(*action),
            None => DenialReason::Code(problem.code.clone()),
        };
        let unrecorded = [Code::ReauthenticationRequired, Code::SecondFactorRequired].map(Code::as_str);
        let is_denied =
            problem.status == Code::Forbidden.status() && !unrecorded.contains(&problem.code.as_str());
        is_denied.then_some(denied)
    }

    /// Converts the error to a response and logs internal details.
    pub fn into_problem(self) -> ProblemDetails {
        match self {
            AppError::Problem(problem) => *problem,
            AppError::Store(StoreError::StorageFull) => {
                ProblemDetails::new(Code::StorageFull, "the server's disk is full; nothing was changed")
            }
            AppError::Store(StoreError::Nul) => ProblemDetails::new(
                Code::InvalidRequest,
                "the request contains a NUL character, which cannot be stored; remove it",
            ),
            AppError::Store(
                StoreError::Unavailable(inside) | StoreError::Outdated(inside) | StoreError::Broken(inside),
            ) => {
                tracing::warn!(%inside, "store unavailable");
                ProblemDetails::new(
                    Code::Unavailable,
                    "the server cannot process this request right now; try again",
                )
            }
            AppError::Store(StoreError::Unknown(inside)) => {
                tracing::warn!(%inside, "commit outcome unknown");
                ProblemDetails::new(
                    Code::Unavailable,
                    "the database connection was lost during the write, so it is unknown whether the change was made. Repeat the request with the same Idempotency-Key to find out, or check the current state first",
                )
            }
            AppError::Store(StoreError::Bug(inside)) | AppError::Fault(inside) => {
                tracing::error!(%inside, "request failed");
                ProblemDetails::new(
                    Code::Internal,
                    "internal error; the server log has details under this request id",
                )
            }
        }
    }
}

/// Why an action was denied.
#[derive(Debug, Clone)]
pub enum DenialReason {
    Permission(Action),
    /// A problem code, for denials that are not about a permission.
    Code(String),
}

pub fn input_error(pointer: &str, detail: impl Into<String>) -> InputError {
    InputError { pointer: pointer.to_owned(), code: InputErrorCode::Invalid, detail: detail.into() }
}

impl From<ProblemDetails> for AppError {
    fn from(problem: ProblemDetails) -> Self {
        AppError::Problem(Box::new(problem))
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        AppError::Store(error)
    }
}

impl From<EngineError> for AppError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Problem(problem) => AppError::Problem(problem),
            EngineError::Fault(detail) => AppError::Fault(detail),
            EngineError::Store(error) => AppError::Store(error),
        }
    }
}

impl From<KeyError> for AppError {
    fn from(error: KeyError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<CommandRefusal> for AppError {
    fn from(refusal: CommandRefusal) -> Self {
        EngineError::from(refusal).into()
    }
}
