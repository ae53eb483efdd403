//! Starts a login at a provider. Nothing is stored: a signed cookie holds what the callback needs, which also binds the
//! login to the browser. Nonce and PKCE verifier are derived from the state and known only to the server.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::problem::Code;
use berth_core::id::SignInId;
use berth_core::time::Timestamp;
use berth_engine::credential::random_base62;
use berth_engine::vault::KeyedHashes;
use berth_store::tables::{provider_login, sign_in};
use serde::{Deserialize, Serialize};

use super::{App, ask_provider};
use crate::auth::authorize::{AuthMethod, Principal};
use crate::error::AppError;
use crate::integrations::oidc::AuthorizationRequest;
use crate::limits::{PASSWORD_CONFIRMED_S, PROVIDER_LOGIN_S_MAX, RETURN_PATH_BYTES_MAX};

/// 256 bits.
const STATE_CHARS: usize = 43;

/// A login that was sent to a provider.
pub(crate) struct StartedProviderLogin {
    /// Where the browser continues.
    pub(crate) url: String,
    /// Value of the cookie that the callback requires.
    pub(crate) cookie: String,
}

/// What happens after the provider has confirmed the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LoginPurpose {
    LogIn,
    /// Link the account at the provider to the account that is logged in.
    Link(SignInId),
    /// Confirm that the person is at the browser, before a sensitive action.
    Confirm(SignInId),
}

/// Content of the signed cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingLogin {
    pub(super) provider: String,
    pub(super) state: String,
    pub(super) purpose: LoginPurpose,
    pub(super) next: String,
    pub(super) started_at: Timestamp,
}

impl App {
    pub(crate) async fn start_provider_login(
        &self,
        provider: &str,
        next: Option<String>,
    ) -> Result<StartedProviderLogin, AppError> {
        self.start(provider, LoginPurpose::LogIn, next).await
    }

    /// Starts linking an account at a provider to the caller's account. Requires a recent confirmation.
    pub(crate) async fn start_provider_link(
        &self,
        who: &Principal,
        provider: &str,
        next: Option<String>,
    ) -> Result<StartedProviderLogin, AppError> {
        self.find_provider(provider)?;
        let id = browser_login(who)?;
        let found = self.services.store.read(None, move |db| {
            let now = db.now();
            Ok::<_, AppError>(sign_in::by_id(db, id, now)?.map(|found| now.seconds_since(found.confirmed_at)))
        });
        if found.await?.is_none_or(|age| age > PASSWORD_CONFIRMED_S) {
            let text = "confirm that it is you before you link an account, and try again";
            return Err(AppError::new(Code::ReauthenticationRequired, text));
        }
        self.start(provider, LoginPurpose::Link(id), next).await
    }

    /// Starts the confirmation that sensitive actions require, for a login that came from a provider.
    pub(crate) async fn start_provider_confirmation(
        &self,
        who: &Principal,
        next: Option<String>,
    ) -> Result<StartedProviderLogin, AppError> {
        let id = browser_login(who)?;
        let login =
            self.services.store.read(None, move |db| Ok::<_, AppError>(provider_login::by_sign_in(db, id)?));
        let Some(login) = login.await? else {
            let text = "you logged in with your password; confirm it with POST /api/v1/auth/confirm";
            return Err(AppError::new(Code::InvalidState, text));
        };
        self.start(&login.provider, LoginPurpose::Confirm(id), next).await
    }

    async fn start(
        &self,
        provider: &str,
        purpose: LoginPurpose,
        next: Option<String>,
    ) -> Result<StartedProviderLogin, AppError> {
        let provider = self.find_provider(provider)?;
        let next = next.unwrap_or_else(|| "/".to_owned());
        if !is_own_path(&next) {
            return Err(AppError::invalid_member("/next", "must be a path of this server, like /acme"));
        }
        let state = random_base62(STATE_CHARS);
        let hashes = self.services.vault.keyed_hashes();
        let request = AuthorizationRequest {
            redirect_url: self.callback_url(&provider),
            nonce: derive_nonce(hashes, &state),
            pkce_verifier: derive_verifier(hashes, &state),
            must_authenticate: matches!(purpose, LoginPurpose::Confirm(_)),
            state: state.clone(),
        };
        let url = ask_provider(&provider, move |it| it.authorization_url(&request)).await?;
        let started_at = self.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let provider = provider.config.name.to_string();
        let pending = PendingLogin { provider, state, purpose, next, started_at };
        Ok(StartedProviderLogin { url, cookie: pending.to_cookie(hashes)? })
    }
}

impl PendingLogin {
    fn to_cookie(&self, hashes: &KeyedHashes) -> Result<String, AppError> {
        let json = serde_json::to_vec(self).map_err(|error| AppError::bug(error.to_string()))?;
        let content = URL_SAFE_NO_PAD.encode(json);
        let signature = hashes.provider_login_value("cookie", &content);
        Ok(format!("{content}.{signature}"))
    }

    /// Reads the cookie. Returns `None` if it was not issued by this server, or has expired.
    pub(super) fn from_cookie(hashes: &KeyedHashes, cookie: &str, now: Timestamp) -> Option<Self> {
        let (content, signature) = cookie.split_once('.')?;
        if !hashes.is_provider_login_value("cookie", content, signature) {
            return None;
        }
        let pending: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(content).ok()?).ok()?;
        (now < pending.expires_at()).then_some(pending)
    }

    pub(super) fn expires_at(&self) -> Timestamp {
        self.started_at.plus_seconds(PROVIDER_LOGIN_S_MAX)
    }
}

pub(super) fn derive_nonce(hashes: &KeyedHashes, state: &str) -> String {
    hashes.provider_login_value("nonce", state)
}

pub(super) fn derive_verifier(hashes: &KeyedHashes, state: &str) -> String {
    hashes.provider_login_value("verifier", state)
}

/// Whether a path leads to a page of this server. A browser would treat `//host` and `/\host` as another server.
fn is_own_path(path: &str) -> bool {
    path.len() <= RETURN_PATH_BYTES_MAX
        && path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

pub(super) fn browser_login(who: &Principal) -> Result<SignInId, AppError> {
    match who.via {
        AuthMethod::SignIn { id } => Ok(id),
        AuthMethod::Token { .. } => {
            let text = "this is possible only in a browser; log in to the dashboard";
            Err(AppError::new(Code::InvalidState, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_own_path;

    #[test]
    fn own_path_leads_to_no_other_server() {
        for good in ["/", "/acme/pipelines?x=1#y"] {
            assert!(is_own_path(good), "{good}");
        }
        for bad in ["", "acme", "//evil.test", "/\\evil.test", "https://evil.test", "/a\nb", "/a b"] {
            assert!(!is_own_path(bad), "{bad}");
        }
    }
}
