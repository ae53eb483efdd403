//! Client of OpenID Connect identity providers: authorization code flow with PKCE, verification of ID tokens, refresh
//! and logout. All requests go through `egress`.

mod claims;
mod client;
mod config;
mod discovery;
mod http_client;

pub use claims::VerifiedAccount;
pub(crate) use client::{AuthorizationRequest, CodeExchange};
pub use config::{GroupMapping, PasswordLogin, ProviderConfig, ProvisionRule};
pub(crate) use discovery::OidcProvider;

use std::sync::Arc;

use berth_engine::egress::EgressClient;

/// Difference between the clocks of the provider and this server that is tolerated, in seconds.
pub const CLOCK_SKEW_S: i64 = 60;

/// Why a request to a provider failed, or why its response was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error("the identity provider could not be reached: {0}")]
    Unreachable(String),
    /// The provider rejected this server's credentials or settings.
    #[error("the identity provider rejected the request of this server ({0}); check its configuration")]
    Misconfigured(String),
    /// The provider rejected the authorization code or the refresh token.
    #[error("the identity provider refused: {0}")]
    Refused(String),
    #[error("the identity provider's response was not accepted: {0}")]
    Invalid(String),
}

/// The configured providers.
pub struct ProviderSet(Vec<Arc<OidcProvider>>);

impl ProviderSet {
    pub(crate) fn new(configs: &[ProviderConfig], egress: &EgressClient) -> Self {
        let provider = |config: &ProviderConfig| Arc::new(OidcProvider::new(config.clone(), egress.clone()));
        Self(configs.iter().map(provider).collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<OidcProvider>> {
        self.0.iter().find(|provider| provider.config.name.as_str() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<OidcProvider>> {
        self.0.iter()
    }
}
