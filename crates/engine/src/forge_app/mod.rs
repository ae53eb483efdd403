//! GitHub Apps: signs in as the app, finds its installation for a repository, and mints access tokens for it.
//!
//! A token gives access to one repository. It is used for the forge's API and as git credential, and is cached in memory
//! until shortly before it expires.

mod jwt;
mod tokens;

use berth_core::forge::ForgeApp;
use berth_core::time::Timestamp;
use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use crate::credential::RedactedString;
use crate::egress::{EgressClient, EgressRequest, EgressResponse};

pub use jwt::is_app_key;
pub(crate) use tokens::AppTokenCache;

/// Maximum size of a response. Those for installations and tokens have a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
const TOKEN_BYTES_MAX: usize = 1_024;
const API_VERSION: &str = "2022-11-28";

/// Why an app gives no access to a repository. The text is shown to users and contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppAccessError {
    #[error(
        "the GitHub App {app} is not installed for {path}; install it, or select the repository, at {url}"
    )]
    NotInstalled { app: String, path: String, url: String },
    #[error("the installation of the GitHub App {app} for {path} is suspended; unsuspend it on the forge")]
    Suspended { app: String, path: String },
    #[error(
        "the forge rejected the key of the GitHub App {0}: the app or its private key was deleted there; disconnect its \
         repositories, delete it, and connect them with another app"
    )]
    Rejected(String),
    #[error("the forge could not be reached: {0}")]
    Unreachable(String),
    #[error("the forge responded with {0}; try again later")]
    Refused(u16),
    #[error("the forge's response cannot be parsed; check that --forge names the right kind of forge")]
    Odd,
}

/// An app with its private key.
pub struct AppLogin {
    pub app: ForgeApp,
    pub private_key: RedactedString,
    /// The current time, for the claims of the token that the app signs.
    pub now: Timestamp,
}

/// An access token for one repository.
#[derive(Debug, Clone)]
pub(crate) struct AppToken {
    pub(crate) value: RedactedString,
    pub(crate) expires_at: Timestamp,
}

impl AppLogin {
    /// Finds the id of the app's installation for a repository. Blocks.
    pub fn find_installation(&self, egress: &EgressClient, path: &str) -> Result<i64, AppAccessError> {
        let url = format!("{}/repos/{}/installation", self.app.api, encode_path(path));
        let answered = self.send(egress, Method::GET, url, None)?;
        match answered.status {
            200 => {}
            404 => return Err(self.not_installed_error(path)),
            status => return Err(self.status_error(status)),
        }
        let found = parse(&answered)?;
        if !found["suspended_at"].is_null() {
            return Err(self.suspended_error(path));
        }
        found["id"].as_i64().filter(|id| *id > 0).ok_or(AppAccessError::Odd)
    }

    /// Mints an access token for one repository. Blocks.
    pub(crate) fn mint_token(&self, egress: &EgressClient, path: &str) -> Result<AppToken, AppAccessError> {
        let installation = self.find_installation(egress, path)?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let url = format!("{}/app/installations/{installation}/access_tokens", self.app.api);
        let answered = self.send(egress, Method::POST, url, Some(json!({"repositories": [name]})))?;
        match answered.status {
            201 => {}
            // Suspended, or the repository was removed from the installation, a moment ago.
            403 => return Err(self.suspended_error(path)),
            404 | 422 => return Err(self.not_installed_error(path)),
            status => return Err(self.status_error(status)),
        }
        let made = parse(&answered)?;
        let is_token = |text: &&str| {
            (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let value = made["token"].as_str().filter(is_token).ok_or(AppAccessError::Odd)?;
        let expires_at = made["expires_at"].as_str().and_then(|text| Timestamp::parse(text).ok());
        let expires_at = expires_at.ok_or(AppAccessError::Odd)?;
        Ok(AppToken { value: RedactedString::new(value.to_owned()), expires_at })
    }

    fn send(
        &self,
        egress: &EgressClient,
        method: Method,
        url: String,
        body: Option<Value>,
    ) -> Result<EgressResponse, AppAccessError> {
        let signed = jwt::sign(&self.private_key, &self.app.forge_app, self.now);
        let token = signed.ok_or_else(|| AppAccessError::Rejected(self.app.name.clone()))?;
        let mut headers = vec![
            ("accept", "application/vnd.github+json".to_owned()),
            ("x-github-api-version", API_VERSION.to_owned()),
            ("authorization", format!("Bearer {}", token.reveal())),
        ];
        headers.extend(body.is_some().then(|| ("content-type", "application/json".to_owned())));
        let body = body.map(|body| body.to_string());
        let ask = EgressRequest { method, url, headers, body, answer_bytes_max: ANSWER_BYTES_MAX };
        egress.send(&ask).map_err(|failed| AppAccessError::Unreachable(failed.why))
    }

    fn not_installed_error(&self, path: &str) -> AppAccessError {
        let (app, url) = (self.app.name.clone(), self.app.install_url());
        AppAccessError::NotInstalled { app, path: path.to_owned(), url }
    }

    fn suspended_error(&self, path: &str) -> AppAccessError {
        AppAccessError::Suspended { app: self.app.name.clone(), path: path.to_owned() }
    }

    fn status_error(&self, status: u16) -> AppAccessError {
        match status {
            401 => AppAccessError::Rejected(self.app.name.clone()),
            status => AppAccessError::Refused(status),
        }
    }
}

fn parse(answered: &EgressResponse) -> Result<Value, AppAccessError> {
    serde_json::from_slice(&answered.body).map_err(|_| AppAccessError::Odd)
}

/// Percent-encodes the segments of a path.
fn encode_path(path: &str) -> String {
    let segments: Vec<String> =
        path.split('/').map(|part| byte_serialize(part.as_bytes()).collect()).collect();
    segments.join("/")
}
