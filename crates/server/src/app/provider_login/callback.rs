//! Receives the browser back from a provider.

use std::sync::Arc;

use berth_api::problem::Code;
use berth_core::client_info::ClientInfo;
use berth_core::event::EventKind;
use berth_core::id::SignInId;
use berth_store::TxContext;
use berth_store::tables::provider_login;
use berth_store::tables::{provider_identity, sign_in, user};

use super::pending::{LoginPurpose, PendingLogin, derive_nonce, derive_verifier};
use super::{App, ask_provider, refused};
use crate::app::sign_in::{SignedIn, record_at_home};
use crate::app::throttle::ThrottleKeys;
use crate::auth::authorize::AuthMethod;
use crate::auth::tokens::hash_token;
use crate::error::AppError;
use crate::integrations::oidc::{CLOCK_SKEW_S, CodeExchange, OidcProvider, VerifiedAccount};

/// Maximum number of characters of an error code that is shown.
const ERROR_CHARS_MAX: usize = 60;

/// The request with which the browser comes back.
pub(crate) struct ProviderCallback {
    pub(crate) provider: String,
    pub(crate) state: Option<String>,
    pub(crate) code: Option<String>,
    /// Error code of the provider.
    pub(crate) error: Option<String>,
    /// Issuer, which some providers add (RFC 9207).
    pub(crate) issuer: Option<String>,
    /// The cookie that was set when the login started.
    pub(crate) pending: Option<String>,
    /// The session cookie, if the browser is logged in.
    pub(crate) session: Option<String>,
    pub(crate) client: ClientInfo,
    pub(crate) request_id: String,
}

/// How a login at a provider ended.
pub(crate) struct FinishedProviderLogin {
    /// Path to continue at.
    pub(crate) next: String,
    /// The new login. `None` after linking or confirming.
    pub(crate) signed_in: Option<SignedIn>,
}

impl App {
    pub(crate) async fn finish_provider_login(
        &self,
        callback: ProviderCallback,
    ) -> Result<FinishedProviderLogin, AppError> {
        let provider = self.find_provider(&callback.provider)?;
        let now = self.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let hashes = self.services.vault.keyed_hashes();
        let pending = callback.pending.as_deref().and_then(|it| PendingLogin::from_cookie(hashes, it, now));
        let pending = pending.filter(|it| {
            it.provider == callback.provider && callback.state.as_deref() == Some(it.state.as_str())
        });
        let Some(pending) = pending else {
            let text =
                "this login was started in another browser or tab, or more than 10 minutes ago; start again";
            return Err(refused(text));
        };
        let context = TxContext { request_id: Some(callback.request_id.clone()), ..TxContext::system(None) };
        let tried = ThrottleKeys::for_provider(&callback.provider, callback.client.address());
        self.count_attempt(context.clone(), tried.clone()).await?;
        self.use_state(context.clone(), &pending).await?;

        let account = self.exchange(&provider, &callback, &pending).await?;
        let next = pending.next.clone();
        let signed_in = match pending.purpose {
            LoginPurpose::LogIn => {
                let (user, id, secret) =
                    self.log_in_account(&provider, account, callback.client, context.clone()).await?;
                Some(self.build_signed_in(&user, id, secret, callback.request_id).await?)
            }
            LoginPurpose::Link(id) => {
                self.check_browser(&callback, id).await?;
                self.link_account(&provider, account, id, context.clone()).await?;
                None
            }
            LoginPurpose::Confirm(id) => {
                self.check_browser(&callback, id).await?;
                self.confirm(&provider, &account, id, &pending, context.clone()).await?;
                None
            }
        };
        let uncount = move |tx: &mut berth_store::Tx<'_>| Self::uncount_attempt(tx, &tried);
        self.services.store.transact(context, uncount).await?;
        Ok(FinishedProviderLogin { next, signed_in })
    }

    /// Marks the state as used, before the code is sent anywhere.
    async fn use_state(&self, context: TxContext, pending: &PendingLogin) -> Result<(), AppError> {
        let (hash, expires_at) = (hash_token(&pending.state), pending.expires_at());
        let used = self.services.store.transact(context, move |tx| {
            Ok::<_, AppError>(provider_login::use_state(tx, &hash, expires_at)?)
        });
        match used.await? {
            true => Ok(()),
            false => Err(refused("this login was already completed or refused; start again")),
        }
    }

    async fn exchange(
        &self,
        provider: &Arc<OidcProvider>,
        callback: &ProviderCallback,
        pending: &PendingLogin,
    ) -> Result<VerifiedAccount, AppError> {
        if let Some(error) = &callback.error {
            let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let error: String = error.chars().filter(is_plain).take(ERROR_CHARS_MAX).collect();
            return Err(refused(format!("the identity provider refused the login: {error}")));
        }
        if callback.issuer.as_ref().is_some_and(|issuer| *issuer != provider.config.issuer) {
            return Err(refused("the response came from another issuer"));
        }
        let Some(code) = callback.code.clone() else {
            return Err(refused("the identity provider sent no authorization code"));
        };
        let hashes = self.services.vault.keyed_hashes();
        let exchange = CodeExchange {
            redirect_url: self.callback_url(provider),
            code,
            nonce: derive_nonce(hashes, &pending.state),
            pkce_verifier: derive_verifier(hashes, &pending.state),
            now: self.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?,
        };
        ask_provider(provider, move |it| it.exchange_code(exchange)).await
    }

    /// Requires that the browser is still logged in with the login that started this.
    async fn check_browser(&self, callback: &ProviderCallback, id: SignInId) -> Result<(), AppError> {
        let principal = match &callback.session {
            Some(cookie) => {
                self.authenticate_cookie(cookie, &callback.client, callback.request_id.clone()).await?
            }
            None => None,
        };
        match principal.map(|it| it.via) {
            Some(AuthMethod::SignIn { id: current }) if current == id => Ok(()),
            _ => Err(AppError::new(Code::Unauthenticated, "your login has ended; log in and start again")),
        }
    }

    async fn confirm(
        &self,
        provider: &OidcProvider,
        account: &VerifiedAccount,
        id: SignInId,
        pending: &PendingLogin,
        context: TxContext,
    ) -> Result<(), AppError> {
        let earliest = pending.started_at.plus_seconds(-CLOCK_SKEW_S);
        if account.authenticated_at.is_none_or(|at| at < earliest) {
            return Err(refused("the identity provider did not ask you to log in again"));
        }
        let (issuer, subject) = (provider.config.issuer.clone(), account.subject.clone());
        let confirmed = self.services.store.transact(context, move |tx| {
            let identity = provider_identity::by_subject(tx, &issuer, &subject)?;
            let login = provider_login::by_sign_in(tx, id)?;
            let (Some(identity), Some(login)) = (identity, login) else { return Ok(false) };
            if identity.id != login.identity {
                if let Some(user) = user::by_id(tx, login.user)? {
                    record_at_home(tx, &user, EventKind::LoginFailed)?;
                }
                return Ok(false);
            }
            sign_in::confirm(tx, id)?;
            Ok::<_, AppError>(true)
        });
        match confirmed.await? {
            true => Ok(()),
            false => Err(refused("you logged in with another account at the identity provider")),
        }
    }
}
