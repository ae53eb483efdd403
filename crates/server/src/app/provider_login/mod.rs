//! Login through an OpenID Connect identity provider.
//!
//! [`pending`] sends the browser to the provider, [`callback`] receives it back, [`accounts`] finds or creates the
//! account, and [`identities`] manages the linked accounts of a person. `jobs::provider_checks` verifies them later.

mod accounts;
mod callback;
mod identities;
mod logout;
mod pending;

pub(crate) use callback::ProviderCallback;
pub(crate) use pending::StartedProviderLogin;

use std::sync::Arc;

use berth_api::identity as wire;
use berth_api::problem::Code;
use berth_store::tables::provider_identity::AccountStanding;

use super::App;
use crate::error::AppError;
use crate::integrations::oidc::{OidcProvider, PasswordLogin, ProviderError};

impl App {
    /// Returns how people can log in.
    pub fn login_options(&self) -> wire::LoginOptions {
        let provider = |it: &Arc<OidcProvider>| wire::LoginProvider {
            name: it.config.name.to_string(),
            label: it.config.label.clone(),
        };
        wire::LoginOptions {
            providers: self.jobs.providers.iter().map(provider).collect(),
            password_login: match self.config.password_login {
                PasswordLogin::Everyone => wire::PasswordLoginRule::Everyone,
                PasswordLogin::Owners => wire::PasswordLoginRule::Owners,
            },
        }
    }

    fn find_provider(&self, name: &str) -> Result<Arc<OidcProvider>, AppError> {
        self.jobs.providers.find(name).cloned().ok_or_else(|| AppError::not_found("identity provider"))
    }

    fn callback_url(&self, provider: &OidcProvider) -> String {
        format!("{}/api/v1/auth/providers/{}/callback", self.config.base_url(), provider.config.name)
    }
}

/// Refuses access if no identity provider vouches for the person.
pub(super) fn check_standing(standing: &AccountStanding) -> Result<(), AppError> {
    let text = match standing {
        AccountStanding::Local | AccountStanding::Verified { .. } => return Ok(()),
        AccountStanding::Unverified { provider } => format!(
            "the identity provider {provider} has not confirmed your account for more than 15 minutes; log in again"
        ),
        AccountStanding::Suspended { provider } => format!(
            "the identity provider {provider} no longer accepts your account; your API tokens are suspended until you \
             log in again"
        ),
    };
    Err(AppError::new(Code::IdentityUnverified, text))
}

fn refused(detail: impl Into<String>) -> AppError {
    AppError::new(Code::ProviderLoginFailed, detail)
}

/// Converts an error of a provider to a response. The operator finds details in the log.
fn provider_error(provider: &OidcProvider, error: &ProviderError) -> AppError {
    tracing::warn!(%error, provider = %provider.config.name, "login through the identity provider failed");
    match error {
        ProviderError::Unreachable(_) => {
            AppError::busy("the identity provider could not be reached; try again")
        }
        ProviderError::Misconfigured(_) | ProviderError::Refused(_) | ProviderError::Invalid(_) => {
            refused(error.to_string())
        }
    }
}

/// Runs blocking requests to a provider on a thread of their own.
async fn ask_provider<T: Send + 'static>(
    provider: &Arc<OidcProvider>,
    work: impl FnOnce(&OidcProvider) -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, AppError> {
    let asked = provider.clone();
    let answered = tokio::task::spawn_blocking(move || work(&asked)).await;
    let answered = answered.map_err(|error| AppError::bug(error.to_string()))?;
    answered.map_err(|error| provider_error(provider, &error))
}
