//! Discovery document and key set of a provider, with a cache.

use std::time::{Duration, Instant};

use berth_engine::egress::EgressClient;
use openidconnect::core::CoreJsonWebKeySet;
use openidconnect::{DiscoveryError, IssuerUrl, ProviderMetadataWithLogout};
use parking_lot::Mutex;
use url::Url;

use super::http_client::{ProviderHttpClient, ProviderHttpError};
use super::{ProviderConfig, ProviderError};

/// How long the discovery document and the keys are cached. Unknown keys are looked up at once.
const METADATA_MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// A provider, with its discovery document and keys. Methods block.
pub(crate) struct OidcProvider {
    pub(crate) config: ProviderConfig,
    egress: EgressClient,
    cached: Mutex<Option<(Instant, ProviderMetadataWithLogout)>>,
}

impl OidcProvider {
    pub(super) fn new(config: ProviderConfig, egress: EgressClient) -> Self {
        Self { config, egress, cached: Mutex::default() }
    }

    pub(super) fn http(&self) -> ProviderHttpClient<'_> {
        ProviderHttpClient(&self.egress)
    }

    /// Returns the discovery document and the keys, from the cache if they are recent.
    pub(super) fn metadata(&self) -> Result<ProviderMetadataWithLogout, ProviderError> {
        let cached = self.cached.lock().clone().filter(|(at, _)| at.elapsed() < METADATA_MAX_AGE);
        if let Some((_, metadata)) = cached {
            return Ok(metadata);
        }
        let issuer = IssuerUrl::new(self.config.issuer.clone())
            .map_err(|_| ProviderError::Misconfigured("the issuer is not a URL".to_owned()))?;
        let found = ProviderMetadataWithLogout::discover(&issuer, &self.http()).map_err(describe_error)?;
        *self.cached.lock() = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    /// Fetches the keys again, because a token is signed with a key that is not in the cache.
    pub(super) fn refetch_keys(
        &self,
        metadata: &ProviderMetadataWithLogout,
    ) -> Result<CoreJsonWebKeySet, ProviderError> {
        let keys = CoreJsonWebKeySet::fetch(metadata.jwks_uri(), &self.http()).map_err(describe_error)?;
        if let Some((_, cached)) = self.cached.lock().as_mut() {
            *cached = cached.clone().set_jwks(keys.clone());
        }
        Ok(keys)
    }
}

/// Refuses a URL that a browser would not open as a web page.
pub(super) fn check_web_url(url: &Url) -> Result<(), ProviderError> {
    match url.scheme() {
        "https" | "http" => Ok(()),
        _ => Err(ProviderError::Misconfigured("an address in the discovery document is not a URL".to_owned())),
    }
}

fn describe_error(error: DiscoveryError<ProviderHttpError>) -> ProviderError {
    match error {
        DiscoveryError::Request(error) => ProviderError::Unreachable(error.to_string()),
        DiscoveryError::Response(status, ..) => {
            ProviderError::Unreachable(format!("discovery responded with status {}", status.as_u16()))
        }
        DiscoveryError::Validation(_) => {
            ProviderError::Misconfigured("the discovery document names another issuer".to_owned())
        }
        _ => ProviderError::Invalid("the discovery document or the key set cannot be parsed".to_owned()),
    }
}
