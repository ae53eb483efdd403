//! Why a request had no effect, in words for the terminal and as the exit code of the program.

use std::fmt;

use serde::Deserialize;

/// Exit codes; they are part of what scripts rely on.
pub(crate) mod exit_code {
    /// What was watched failed, or something else went wrong.
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const NOT_ALLOWED: u8 = 4;
    pub(crate) const LOCKED: u8 = 5;
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// How the sentence begins with which the API says what can be done about a held environment.
const ADVICE: &str = " Wait in line with \"queue\"";

#[derive(Debug)]
pub(crate) enum Failure {
    /// The server said no.
    Problem(Box<Problem>),
    Unreachable {
        server: String,
        cause: String,
    },
    /// Nobody said which server.
    NotLoggedIn,
    /// Nobody said for whom, on this server.
    NoToken(String),
    /// No such thing, as far as we looked ourselves.
    NotFound(String),
    /// The words of the command do not say what is meant.
    Unclear(String),
}

/// A problem body, read with patience: what answers may be a proxy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    detail: String,
    request_id: String,
    errors: Vec<InputError>,
    /// The caller holds the environment themselves.
    #[serde(rename = "self")]
    is_own: bool,
    /// What can be done about it, from whoever asked.
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
            problem.detail = format!("{server} answered {status}; is this the address of a Berth server?");
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

    /// An environment is held by the very person who asked for it.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Failure::Problem(problem) if problem.is_own)
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, text: String) -> Self {
        if let Failure::Problem(problem) = &mut self {
            // What the API advises is meant for programs.
            if let Some(at) = problem.detail.find(ADVICE) {
                problem.detail.truncate(at);
            }
            problem.hint = text;
        }
        self
    }

    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self, Failure::Problem(problem) if problem.status == 304)
    }

    /// Nobody knows whether the server is there: asking again later may help.
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
                write!(f, "cannot reach {server}: {cause}. Is the server running, and the address right?")
            }
            Failure::NotLoggedIn => f.write_str(
                "no server is known. `berth login URL` keeps one for this account; scripts set BERTH_SERVER and BERTH_TOKEN.",
            ),
            Failure::NoToken(server) => write!(
                f,
                "there is no token for {server}. `berth login {server}` keeps one for this account; scripts set BERTH_TOKEN."
            ),
            Failure::NotFound(text) | Failure::Unclear(text) => f.write_str(text),
            Failure::Problem(problem) => {
                f.write_str(&in_words_of_commands(&problem.detail))?;
                // One that stands alone is what the detail says.
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

/// The server speaks of requests; here it is an option of every command that removes something.
fn in_words_of_commands(detail: &str) -> String {
    detail.replace("send ?force=true", "use --force").replace("?force=true", "--force")
}

impl std::error::Error for Failure {}
