//! Sends requests to a forge (GitHub, GitLab, Gitea) and turns errors into messages for users.

use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressRequest, EgressResponse};
use serde_json::Value;

use super::{BranchPair, Forge, ForgePullRequestState, ForgeRepository, PullRequest, PullRequestDraft};

/// Maximum size of a response. The response for a pull request is usually some tens of kilobytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of characters shown of an error message from the forge.
const SAID_CHARS_MAX: usize = 300;

/// Why a request failed. Never contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    #[error("the forge could not be reached: {0}")]
    Unreachable(String),
    #[error("the forge rejected the repository's credential; use one that may open pull requests")]
    NotAllowed,
    #[error("the forge has no such repository, or the repository's credential has no access to it")]
    NotFound,
    #[error("the forge's rate limit was reached; try again later")]
    Busy,
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
    pub token: RedactedString,
}

impl ForgeClient {
    /// Returns the open pull request for a pair of branches.
    pub fn find(&self, branches: BranchPair<'_>) -> Result<Option<PullRequest>, ForgeError> {
        let answered = self.send(self.forge.find_url(&self.at, branches), None)?;
        if answered.status == 404 {
            // Some forges respond with 404 if there is no such pull request. If instead the repository is missing,
            // opening a pull request will fail later.
            return Ok(None);
        }
        let value = self.parse_response(&answered)?;
        Ok(self.forge.parse_found(&value))
    }

    pub fn open(&self, new: PullRequestDraft<'_>) -> Result<PullRequest, ForgeError> {
        let body = self.forge.open_body(new).to_string();
        let answered = self.send(self.forge.open_url(&self.at), Some(body))?;
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
        let answered = self.send(self.forge.get_url(&self.at, number), None)?;
        let value = self.parse_response(&answered)?;
        self.forge.parse_state(&value).ok_or(ForgeError::Odd)
    }

    fn send(&self, url: String, body: Option<String>) -> Result<EgressResponse, ForgeError> {
        let mut headers = self.forge.headers(self.token.reveal());
        headers.extend(body.is_some().then(|| ("content-type", "application/json".to_owned())));
        let ask = EgressRequest { url, headers, body, answer_bytes_max: ANSWER_BYTES_MAX };
        self.egress.send(&ask).map_err(|failed| ForgeError::Unreachable(failed.why))
    }

    fn parse_response(&self, answered: &EgressResponse) -> Result<Value, ForgeError> {
        let value = serde_json::from_slice::<Value>(&answered.body);
        match answered.status {
            200..300 => value.map_err(|_| ForgeError::Odd),
            401 => Err(ForgeError::NotAllowed),
            403 | 429 if answered.retry_after_s.is_some() => Err(ForgeError::Busy),
            403 => Err(ForgeError::NotAllowed),
            404 => Err(ForgeError::NotFound),
            429 => Err(ForgeError::Busy),
            status => Err(ForgeError::Refused { status, said: self.error_message(value.ok().as_ref()) }),
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
