//! Credentials for repositories. They are secret values, cached by secret and version.

use berth_core::id::{OrgId, SecretId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::secret::{ScopePath, Secret};
use berth_store::tables::secret;
use berth_store::{StoreRead, TxContext};
use quick_cache::sync::Cache;

use crate::credential::RedactedString;
use crate::error::EngineError;
use crate::git::GitCredential;
use crate::services::Services;

/// Maximum number of cached values.
const KNOWN_MAX: usize = 4_096;

/// Cache of secret values and their versions. Reading a secret records an event, so reading it whenever a repository is
/// polled would flood the audit log.
pub(crate) struct GitCredentials(Cache<SecretId, (i64, RedactedString)>);

impl Default for GitCredentials {
    fn default() -> Self {
        Self(Cache::new(KNOWN_MAX))
    }
}

impl Services {
    /// Returns the value of a repository's secret. The text of the inner error is shown to users.
    pub async fn git_credential(
        &self,
        org: OrgId,
        name: Option<SecretName>,
    ) -> Result<Result<Option<GitCredential>, String>, EngineError> {
        let Some(name) = name else { return Ok(Ok(None)) };
        let wanted = name.clone();
        let found = self.store.read(Some(org), move |db| find_secret(db, &wanted)).await?;
        let Some(found) = found else { return Ok(Err(no_secret_message(&name))) };
        if let Some(value) = self.cached_credential(&found) {
            return Ok(Ok(Some(GitCredential::new(value))));
        }
        let (id, version, vault) = (found.id, found.version, self.vault.clone());
        let read = self.store.transact(TxContext::system(Some(org)), move |tx| {
            Ok::<_, EngineError>(vault.reveal(tx, &found, found.version)?)
        });
        let value = read.await?;
        self.git_credentials.0.insert(id, (version, value.clone()));
        Ok(Ok(Some(GitCredential::new(value))))
    }

    /// Blocking variant of [`Services::git_credential`].
    pub fn git_credential_blocking(
        &self,
        org: OrgId,
        name: Option<SecretName>,
    ) -> Result<Result<Option<GitCredential>, String>, EngineError> {
        let Some(name) = name else { return Ok(Ok(None)) };
        let wanted = name.clone();
        let found = self.store.read_blocking(Some(org), move |db| find_secret(db, &wanted))?;
        let Some(found) = found else { return Ok(Err(no_secret_message(&name))) };
        if let Some(value) = self.cached_credential(&found) {
            return Ok(Ok(Some(GitCredential::new(value))));
        }
        let (id, version, vault) = (found.id, found.version, self.vault.clone());
        let value = self.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            Ok::<_, EngineError>(vault.reveal(tx, &found, found.version)?)
        })?;
        self.git_credentials.0.insert(id, (version, value.clone()));
        Ok(Ok(Some(GitCredential::new(value))))
    }

    fn cached_credential(&self, secret: &Secret) -> Option<RedactedString> {
        let (version, value) = self.git_credentials.0.get(&secret.id)?;
        (version == secret.version).then_some(value)
    }
}

fn find_secret(db: &mut impl StoreRead, name: &SecretName) -> Result<Option<Secret>, EngineError> {
    Ok(secret::by_name(db, name, &ScopePath::Organization)?)
}

fn no_secret_message(name: &SecretName) -> String {
    format!("there is no secret {name} any more")
}
