//! Client errors, their messages and exit codes.

use std::fmt;

use serde::Deserialize;

use crate::output::time::format_clock;

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

/// A problem's detail may contain a sentence that tells API clients how to queue for a held environment. This string
/// identifies that sentence.
const API_ADVICE_MARK: &str = "\"queue\": true";

#[derive(Debug)]
pub(crate) enum ClientError {
    /// The server refused the request.
    Problem(Box<ProblemBody>),
    Unreachable {
        server: String,
        cause: String,
    },
    /// No server is configured.
    NotLoggedIn,
    /// No token is configured for this server.
    NoToken(String),
    /// The client itself found no match, for example for a name in a list. A 404 response is a
    /// [`ClientError::Problem`].
    NotFound(String),
    /// The arguments are ambiguous or incomplete.
    Usage(String),
}

/// Problem body. Every member is optional, because a proxy may have sent the response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ProblemBody {
    pub(crate) status: u16,
    pub(crate) code: String,
    detail: String,
    request_id: String,
    errors: Vec<FieldError>,
    /// The caller already holds the environment.
    #[serde(rename = "self")]
    is_own: bool,
    /// Advice for the user, added by the command that failed.
    #[serde(skip)]
    hint: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldError {
    pointer: String,
    detail: String,
}

impl ClientError {
    pub(super) fn from_response(server: &str, status: u16, text: &str) -> Self {
        let mut problem: ProblemBody = serde_json::from_str(text).unwrap_or_default();
        if problem.detail.is_empty() && problem.code.is_empty() {
            problem.detail = format!("{server} returned HTTP {status}; is it a Berth server?");
        }
        problem.status = status;
        ClientError::Problem(Box::new(problem))
    }

    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            ClientError::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// Returns whether the caller already holds the environment.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, ClientError::Problem(problem) if problem.is_own)
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, text: String) -> Self {
        if let ClientError::Problem(problem) = &mut self {
            // Drop the API's own advice: it names request fields, not the flags of this program.
            let advice = problem.detail.find(API_ADVICE_MARK);
            if let Some(end) = advice.and_then(|at| problem.detail[..at].rfind(". ")) {
                problem.detail.truncate(end + 1);
            }
            problem.hint = text;
        }
        self
    }

    pub(super) fn is_not_modified(&self) -> bool {
        matches!(self, ClientError::Problem(problem) if problem.status == 304)
    }

    /// Returns whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } => true,
            ClientError::Problem(problem) => problem.status >= 500 || problem.status == 429,
            _ => false,
        }
    }

    pub(crate) fn is_transient_error(error: &anyhow::Error) -> bool {
        error.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            ClientError::Problem(problem) => match problem.status {
                401 | 403 => exit_code::NOT_ALLOWED,
                404 => exit_code::NOT_FOUND,
                _ if problem.code == "environment_locked" => exit_code::LOCKED,
                _ => exit_code::FAILED,
            },
            ClientError::Unreachable { .. } => exit_code::FAILED,
            ClientError::NotLoggedIn | ClientError::NoToken(_) => exit_code::NOT_ALLOWED,
            ClientError::NotFound(_) => exit_code::NOT_FOUND,
            ClientError::Usage(_) => exit_code::USAGE,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Unreachable { server, cause } => {
                write!(f, "cannot reach {server}: {cause}. Check the URL and that the server is running.")
            }
            ClientError::NotLoggedIn => {
                f.write_str("not logged in. Run `berth login URL`, or set BERTH_SERVER and BERTH_TOKEN.")
            }
            ClientError::NoToken(server) => {
                write!(f, "no token for {server}. Run `berth login {server}`, or set BERTH_TOKEN.")
            }
            ClientError::NotFound(text) | ClientError::Usage(text) => f.write_str(text),
            ClientError::Problem(problem) => {
                f.write_str(&format_timestamps(&rewrite_api_terms(&problem.detail)))?;
                // If there is only one error, the detail already contains it.
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

/// Replaces names of query parameters in a problem's detail with the matching command-line flags.
fn rewrite_api_terms(detail: &str) -> String {
    detail.replace("send ?force=true", "use --force").replace("?force=true", "--force")
}

/// Replaces timestamps of the API with times in the local time zone.
fn format_timestamps(text: &str) -> String {
    let format_word = |word: &str| {
        let time = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if time.parse::<jiff::Timestamp>().is_err() {
            return word.to_owned();
        }
        format!("{}{}", format_clock(time), &word[time.len()..])
    };
    text.split(' ').map(format_word).collect::<Vec<_>>().join(" ")
}

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use super::format_timestamps;
    use crate::output::time::format_clock;

    #[test]
    fn timestamps_in_an_error_are_local_times() {
        let (since, until) = ("2026-11-15T03:43:55.996Z", "2026-11-16T03:43:55.996Z");
        assert_eq!(
            format_timestamps(&format!("held by Bob since {since}, until {until}.")),
            format!("held by Bob since {}, until {}.", format_clock(since), format_clock(until))
        );
        assert_eq!(format_timestamps("timed out after 10m; 42 left"), "timed out after 10m; 42 left");
    }
}
