//! Client errors, their messages and exit codes.

use std::fmt;

use serde::Deserialize;

/// Exit codes. Scripts rely on them.
pub(crate) mod exit_code {
    /// The watched deployment failed, or any other error.
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const NOT_ALLOWED: u8 = 4;
    pub(crate) const LOCKED: u8 = 5;
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Marks the sentence in which the API advises programs how to proceed with a held environment.
const API_ADVICE_MARK: &str = "\"queue\": true";

#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused the request.
    Problem(Box<Problem>),
    Unreachable {
        server: String,
        cause: String,
    },
    /// No server is configured.
    NotLoggedIn,
    /// No token is configured for this server.
    NoToken(String),
    /// The client found no such record.
    NotFound(String),
    /// The arguments are ambiguous or incomplete.
    Unclear(String),
}

/// Problem body. Every member is optional, because a proxy may have sent the response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    detail: String,
    request_id: String,
    errors: Vec<InputError>,
    /// The caller already holds the environment.
    #[serde(rename = "self")]
    is_own: bool,
    /// Advice added by the command.
    #[serde(skip)]
    hint: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputError {
    pointer: String,
    detail: String,
}

impl Failure {
    pub(super) fn answered(server: &str, status: u16, text: &str) -> Self {
        let mut problem: Problem = serde_json::from_str(text).unwrap_or_default();
        if problem.detail.is_empty() && problem.code.is_empty() {
            problem.detail = format!("{server} returned HTTP {status}; is it a Berth server?");
        }
        problem.status = status;
        Failure::Problem(Box::new(problem))
    }

    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Failure::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// Returns whether the caller already holds the environment.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Failure::Problem(problem) if problem.is_own)
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, text: String) -> Self {
        if let Failure::Problem(problem) = &mut self {
            // The API's own advice is written for programs.
            let advice = problem.detail.find(API_ADVICE_MARK);
            if let Some(end) = advice.and_then(|at| problem.detail[..at].rfind(". ")) {
                problem.detail.truncate(end + 1);
            }
            problem.hint = text;
        }
        self
    }

    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self, Failure::Problem(problem) if problem.status == 304)
    }

    /// Returns whether a retry may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Failure::Unreachable { .. } => true,
            Failure::Problem(problem) => problem.status >= 500 || problem.status == 429,
            _ => false,
        }
    }

    pub(crate) fn passes(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Failure>().is_some_and(Failure::is_passing)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Problem(problem) => match problem.status {
                401 | 403 => exit_code::NOT_ALLOWED,
                404 => exit_code::NOT_FOUND,
                _ if problem.code == "environment_locked" => exit_code::LOCKED,
                _ => exit_code::FAILED,
            },
            Failure::Unreachable { .. } => exit_code::FAILED,
            Failure::NotLoggedIn | Failure::NoToken(_) => exit_code::NOT_ALLOWED,
            Failure::NotFound(_) => exit_code::NOT_FOUND,
            Failure::Unclear(_) => exit_code::USAGE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable { server, cause } => {
                write!(f, "cannot reach {server}: {cause}. Check the URL and that the server is running.")
            }
            Failure::NotLoggedIn => {
                f.write_str("not logged in. Run `berth login URL`, or set BERTH_SERVER and BERTH_TOKEN.")
            }
            Failure::NoToken(server) => {
                write!(f, "no token for {server}. Run `berth login {server}`, or set BERTH_TOKEN.")
            }
            Failure::NotFound(text) | Failure::Unclear(text) => f.write_str(text),
            Failure::Problem(problem) => {
                f.write_str(&in_words_of_commands(&problem.detail))?;
                // A single error repeats the detail.
                for error in problem.errors.iter().filter(|_| problem.errors.len() > 1) {
                    write!(f, "\n  {}: {}", error.pointer, error.detail)?;
                }
                if problem.status >= 500 && !problem.request_id.is_empty() {
                    write!(f, "\n  (request {})", problem.request_id)?;
                }
                if !problem.hint.is_empty() {
                    write!(f, "\n{}", problem.hint)?;
                }
                Ok(())
            }
        }
    }
}

/// Replaces query parameters in a problem's detail with the flags of this program.
fn in_words_of_commands(detail: &str) -> String {
    detail.replace("send ?force=true", "use --force").replace("?force=true", "--force")
}

impl std::error::Error for Failure {}
