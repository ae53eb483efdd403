//! Credentials for repositories: secret values, cached by secret and version, or access tokens of GitHub Apps.

use berth_core::id::{OrgId, RepositoryId, SecretId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::repository::Repository;
use berth_core::secret::{ScopePath, Secret};
use berth_store::tables::{forge_app, secret};
use berth_store::{StoreRead, TxContext};
use quick_cache::sync::Cache;

use crate::credential::RedactedString;
use crate::error::EngineError;
use crate::forge_app::{AppAccessError, AppLogin, AppToken, AppTokenCache};
use crate::git::GitCredential;
use crate::services::Services;
use crate::vault::SecretVault;

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

/// How a repository is accessed.
enum RepositoryLogin {
    /// With the secret that it names, if any.
    Secret,
    /// With a cached access token of the app through which it is connected.
    Cached(RedactedString),
    /// With an access token that has to be minted.
    App(Box<AppLogin>),
}

impl Services {
    /// Returns a repository's credential: an access token of the GitHub App through which it is connected, or else its
    /// secret. The text of the inner error is shown to users. A failure of the app never falls back to the secret.
    pub async fn repository_credential(
        &self,
        org: OrgId,
        repository: &Repository,
    ) -> Result<Result<Option<GitCredential>, String>, EngineError> {
        let (id, vault, cache) = (repository.id, self.vault.clone(), self.app_tokens.clone());
        let login = self.store.read(Some(org), move |db| find_login(db, &vault, &cache, org, id));
        match login.await? {
            RepositoryLogin::Secret => self.git_credential(org, repository.credential.clone()).await,
            RepositoryLogin::Cached(token) => Ok(Ok(Some(GitCredential::new(token)))),
            RepositoryLogin::App(login) => {
                let (egress, url) = (self.egress.clone(), repository.url.clone());
                let minted = tokio::task::spawn_blocking(move || {
                    let token = login.mint_token(&egress, url.forge_path().unwrap_or_default());
                    (login, token)
                });
                let minted =
                    minted.await.map_err(|_| EngineError::bug("minting an access token panicked"))?;
                Ok(self.keep_token(id, minted))
            }
        }
    }

    /// Blocking variant of [`Services::repository_credential`].
    pub fn repository_credential_blocking(
        &self,
        org: OrgId,
        repository: &Repository,
    ) -> Result<Result<Option<GitCredential>, String>, EngineError> {
        let (id, vault, cache) = (repository.id, self.vault.clone(), self.app_tokens.clone());
        match self.store.read_blocking(Some(org), move |db| find_login(db, &vault, &cache, org, id))? {
            RepositoryLogin::Secret => self.git_credential_blocking(org, repository.credential.clone()),
            RepositoryLogin::Cached(token) => Ok(Ok(Some(GitCredential::new(token)))),
            RepositoryLogin::App(login) => {
                let token = login.mint_token(&self.egress, repository.url.forge_path().unwrap_or_default());
                Ok(self.keep_token(id, (login, token)))
            }
        }
    }

    /// Discards the cached access token of a repository, because it was refused.
    pub fn discard_app_token(&self, repository: RepositoryId) {
        self.app_tokens.remove(repository);
    }

    fn keep_token(
        &self,
        repository: RepositoryId,
        (login, token): (Box<AppLogin>, Result<AppToken, AppAccessError>),
    ) -> Result<Option<GitCredential>, String> {
        let token = token.map_err(|error| error.to_string())?;
        let value = token.value.clone();
        self.app_tokens.put(repository, login.app.id, token, login.now);
        Ok(Some(GitCredential::new(value)))
    }

    /// Returns the value of a secret that contains a credential. The text of the inner error is shown to users.
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

fn find_login(
    db: &mut impl StoreRead,
    vault: &SecretVault,
    cache: &AppTokenCache,
    org: OrgId,
    repository: RepositoryId,
) -> Result<RepositoryLogin, EngineError> {
    let Some(app) = forge_app::of_repository(db, repository)? else { return Ok(RepositoryLogin::Secret) };
    let now = db.now();
    if let Some(token) = cache.find(repository, &app, now) {
        return Ok(RepositoryLogin::Cached(token));
    }
    let sealed = forge_app::load_private_key(db, app.id)?;
    let sealed = sealed.ok_or_else(|| EngineError::bug("a GitHub App without private key"))?;
    let private_key = vault.open_app_key(db, org, app.id, &sealed)?;
    Ok(RepositoryLogin::App(Box::new(AppLogin { app, private_key, now })))
}

fn find_secret(db: &mut impl StoreRead, name: &SecretName) -> Result<Option<Secret>, EngineError> {
    Ok(secret::by_name(db, name, &ScopePath::Organization)?)
}

fn no_secret_message(name: &SecretName) -> String {
    format!("there is no secret {name} any more")
}
