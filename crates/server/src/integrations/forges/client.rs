//! Sends requests to a forge and turns errors into messages for users.

use std::time::{Duration, SystemTime};

use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressRequest, EgressResponse};
use http::Method;
use serde_json::Value;

use super::{
    BranchPair, Forge, ForgeLogin, ForgePullRequestState, ForgeRepository, ForgeRequest, PullRequest,
    PullRequestDraft,
};

/// Maximum size of a response. The response for a pull request is usually some tens of kilobytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of characters shown of an error message from the forge.
const SAID_CHARS_MAX: usize = 300;
/// Maximum time to wait that is believed.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Why a request failed. Never contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    #[error("the forge could not be reached: {0}")]
    Unreachable(String),
    #[error(
        "the forge rejected the repository's credential; use one that may open pull requests, write comments and set commit statuses"
    )]
    NotAllowed,
    #[error("the forge has no such repository, or the repository's credential has no access to it")]
    NotFound,
    /// The time to wait, if the forge named it.
    #[error("the forge's rate limit was reached; try again later")]
    Busy(Option<Duration>),
    #[error("the forge responded with {status}: {said}")]
    Refused { status: u16, said: String },
    #[error("the forge's response cannot be parsed; check that --forge names the right kind of forge")]
    Odd,
}

/// Client for one repository on its forge. Its methods block.
pub struct ForgeClient {
    pub egress: EgressClient,
    pub forge: &'static dyn Forge,
    pub at: ForgeRepository,
    /// The user name, if the credential has one.
    pub user: Option<String>,
    pub token: RedactedString,
}

impl ForgeClient {
    /// Returns the open pull request for a pair of branches.
    pub fn find(&self, branches: BranchPair<'_>) -> Result<Option<PullRequest>, ForgeError> {
        let answered = self.get_json(self.forge.find_url(&self.at, branches))?;
        if answered.status == 404 {
            // Some forges respond with 404 if there is no such pull request. If instead the repository is missing,
            // opening a pull request will fail later.
            return Ok(None);
        }
        let value = self.parse_response(&answered)?;
        Ok(self.forge.parse_found(&value))
    }

    pub fn open(&self, new: PullRequestDraft<'_>) -> Result<PullRequest, ForgeError> {
        let request =
            ForgeRequest::new(Method::POST, self.forge.open_url(&self.at), self.forge.open_body(new));
        let answered = self.send(request, ANSWER_BYTES_MAX)?;
        // The pull request may already exist, for example after a lost response.
        if matches!(answered.status, 409 | 422)
            && let Some(found) = self.find(new.branches)?
        {
            return Ok(found);
        }
        let value = self.parse_response(&answered)?;
        self.forge.parse_opened(&value).ok_or(ForgeError::Odd)
    }

    /// Returns the state of a pull request.
    pub fn get(&self, number: i64) -> Result<ForgePullRequestState, ForgeError> {
        let answered = self.get_json(self.forge.get_url(&self.at, number))?;
        let value = self.parse_response(&answered)?;
        self.forge.parse_state(&value).ok_or(ForgeError::Odd)
    }

    pub(super) fn get_json(&self, url: String) -> Result<EgressResponse, ForgeError> {
        self.send(ForgeRequest::without_body(Method::GET, url), ANSWER_BYTES_MAX)
    }

    /// Sends a request that changes something, and returns the response if the forge accepted it.
    pub(super) fn change(&self, request: ForgeRequest) -> Result<EgressResponse, ForgeError> {
        let answered = self.send(request, ANSWER_BYTES_MAX)?;
        self.check_status(&answered)?;
        Ok(answered)
    }

    pub(super) fn send(
        &self,
        request: ForgeRequest,
        answer_bytes_max: u64,
    ) -> Result<EgressResponse, ForgeError> {
        let login = ForgeLogin { user: self.user.as_deref(), token: self.token.reveal() };
        let mut headers = self.forge.headers(login);
        let ForgeRequest { method, url, body } = request;
        headers.extend(body.is_some().then(|| ("content-type", "application/json".to_owned())));
        // A POST without a body needs a length.
        let body = body.map(|body| body.to_string()).or_else(|| (method == Method::POST).then(String::new));
        let ask = EgressRequest { method, url, headers, body, answer_bytes_max };
        self.egress.send(&ask).map_err(|failed| ForgeError::Unreachable(failed.why))
    }

    pub(super) fn parse_response(&self, answered: &EgressResponse) -> Result<Value, ForgeError> {
        self.check_status(answered)?;
        serde_json::from_slice(&answered.body).map_err(|_| ForgeError::Odd)
    }

    fn check_status(&self, answered: &EgressResponse) -> Result<(), ForgeError> {
        let is_limited = answered.retry_after_s.is_some() || has_exhausted_rate(answered);
        match answered.status {
            200..300 => Ok(()),
            429 => Err(ForgeError::Busy(time_to_wait(answered))),
            403 if is_limited => Err(ForgeError::Busy(time_to_wait(answered))),
            401 | 403 => Err(ForgeError::NotAllowed),
            404 => Err(ForgeError::NotFound),
            status => {
                let value = serde_json::from_slice::<Value>(&answered.body).ok();
                Err(ForgeError::Refused { status, said: self.error_message(value.as_ref()) })
            }
        }
    }

    /// Returns the forge's error message. The message is untrusted, so it is truncated and the token is removed from
    /// it.
    fn error_message(&self, value: Option<&Value>) -> String {
        let detail = |value: &Value| {
            let first = value.get("errors")?.as_array()?.first()?;
            first.get("message").unwrap_or(first).as_str().map(str::to_owned)
        };
        let message = value.and_then(|value| value.get("message").or_else(|| value.get("error")));
        // Bitbucket's `error` is an object.
        let message = message.map(|it| it.get("message").unwrap_or(it));
        let message = message.map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned));
        let parts: Vec<_> = message.into_iter().chain(value.and_then(detail)).collect();
        let mut text = parts.join(": ");
        if !self.token.reveal().is_empty() {
            text = text.replace(self.token.reveal(), "…");
        }
        let text: String = berth_analysis::clean(&text).chars().take(SAID_CHARS_MAX).collect();
        if text.is_empty() { "no reason given".to_owned() } else { text }
    }
}

/// Whether the rate limit's budget is used up.
fn has_exhausted_rate(answered: &EgressResponse) -> bool {
    answered.header("x-ratelimit-remaining").is_some_and(|left| left.trim() == "0")
}

/// Returns the time to wait from `Retry-After`, or from the Unix time at which the budget is reset.
fn time_to_wait(answered: &EgressResponse) -> Option<Duration> {
    let reset = || {
        let reset = answered.header("x-ratelimit-reset").or_else(|| answered.header("ratelimit-reset"))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        Some(reset.trim().parse::<u64>().ok()?.saturating_sub(now))
    };
    let seconds = answered.retry_after_s.and_then(|seconds| u64::try_from(seconds).ok()).or_else(reset)?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}
