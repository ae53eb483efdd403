//! Credentials for repositories. They are secret values, cached by secret and version.

use berth_core::id::{OrgId, SecretId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::secret::{ScopePath, Secret};
use berth_store::TxContext;
use berth_store::tables::secret;
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
        let found: Option<Secret> = self
            .store
            .read(Some(org), move |db| {
                Ok::<_, EngineError>(secret::by_name(db, &wanted, &ScopePath::Organization)?)
            })
            .await?;
        let Some(found) = found else { return Ok(Err(format!("there is no secret {name} any more"))) };
        let (id, version) = (found.id, found.version);
        let kept =
            self.git_credentials.0.get(&id).filter(|(kept, _)| *kept == version).map(|(_, value)| value);
        let value = match kept {
            Some(value) => value,
            None => {
                let vault = self.vault.clone();
                let read = self.store.transact(TxContext::system(Some(org)), move |tx| {
                    Ok::<_, EngineError>(vault.reveal(tx, &found, found.version)?)
                });
                let value = read.await?;
                self.git_credentials.0.insert(id, (version, value.clone()));
                value
            }
        };
        Ok(Ok(Some(GitCredential::new(value))))
    }
}
