//! Cache of access tokens, by repository.

use berth_core::forge::ForgeApp;
use berth_core::id::{ForgeAppId, RepositoryId};
use berth_core::time::Timestamp;
use quick_cache::sync::Cache;

use super::AppToken;
use crate::credential::RedactedString;

/// Maximum number of cached tokens.
const TOKENS_MAX: usize = 4_096;
/// A token is replaced this many seconds before it expires, so that it does not expire during a fetch.
const REFRESH_BEFORE_S: i64 = 10 * 60;

/// Cache of access tokens. It also records when each was minted, because a change of the installation may revoke it.
pub(crate) struct AppTokenCache(Cache<RepositoryId, CachedToken>);

#[derive(Clone)]
struct CachedToken {
    app: ForgeAppId,
    token: AppToken,
    minted_at: Timestamp,
}

impl Default for AppTokenCache {
    fn default() -> Self {
        Self(Cache::new(TOKENS_MAX))
    }
}

impl AppTokenCache {
    pub(crate) fn find(
        &self,
        repository: RepositoryId,
        app: &ForgeApp,
        now: Timestamp,
    ) -> Option<RedactedString> {
        let found = self.0.get(&repository)?;
        let is_good = found.app == app.id
            && found.minted_at > app.installation_changed_at
            && found.token.expires_at.seconds_since(now) > REFRESH_BEFORE_S;
        is_good.then_some(found.token.value)
    }

    pub(crate) fn put(
        &self,
        repository: RepositoryId,
        app: ForgeAppId,
        token: AppToken,
        minted_at: Timestamp,
    ) {
        self.0.insert(repository, CachedToken { app, token, minted_at });
    }

    pub(crate) fn remove(&self, repository: RepositoryId) {
        self.0.remove(&repository);
    }
}
