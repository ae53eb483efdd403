//! The vault encrypts secret values. Each organization has a data key, which is wrapped by the root key.
//!
//! A value is bound to its organization, scope, name, version and key, so it cannot be decrypted if it is moved to
//! another database row.

mod accounts;
mod chat_secrets;
mod forge_secrets;
mod keyed_hashes;
mod provider_tokens;
mod root;
mod rotate;
mod search;

use std::path::{Path, PathBuf};

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{DataKeyId, OrgId, WebhookId};
use berth_core::secret::Secret;
use berth_store::tables::key::{self, DataKey, WrappedKey};
use berth_store::tables::organization;
use berth_store::tables::secret::{self, SealedValue};
use berth_store::tables::webhook::SigningSecret;
use berth_store::{Store, StoreError, StoreRead, Tx, TxContext, pagination};
use parking_lot::{Mutex, RwLock};
use zeroize::Zeroizing;

pub use keyed_hashes::KeyedHashes;
pub use keyed_hashes::hex;
pub use provider_tokens::ProviderTokenKind;
use root::{KeyBytes, RootKey};
pub use rotate::{RotationResult, is_being_rotated};

use crate::credential::RedactedString;
use crate::error::EngineError;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "there is no root key at {0}. Put the one this database was made with there, or name it with --root-key-file."
    )]
    Missing(PathBuf),
    #[error("{path} is not a root key: {why}")]
    Invalid { path: PathBuf, why: &'static str },
    #[error("cannot use the root key {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "the root key at {path} is not the one this database was made with (it is key {found}, the database wants \
         key {wanted}). Nothing was changed. Put the right key there, or name it with --root-key-file."
    )]
    WrongKey { path: PathBuf, found: String, wanted: String },
    #[error(
        "an encrypted key or value cannot be decrypted: it was changed, moved, or encrypted with another key"
    )]
    Damaged,
    #[error("the system gave no random bytes")]
    NoRandomness,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeyError> for EngineError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            other => EngineError::bug(other.to_string()),
        }
    }
}

/// What to do if the root key is missing when the vault is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenMissing {
    Create,
    Refuse,
}

pub struct SecretVault {
    path: PathBuf,
    roots: RwLock<RootKeys>,
    marks: KeyedHashes,
    account_key: accounts::AccountKey,
    /// Encrypts the signing keys of ID tokens. Derived from the installation's key, which outlives root keys.
    signing_keys: KeyBytes,
    /// Held while the root key is rotated.
    rotation: Mutex<()>,
}

/// The root keys. During a rotation there are two: either of them unwraps data keys, but only the new one wraps them.
struct RootKeys {
    current: RootKey,
    next: Option<RootKey>,
}

impl RootKeys {
    fn wrapping_key(&self) -> &RootKey {
        self.next.as_ref().unwrap_or(&self.current)
    }

    fn unwrap(&self, wrapped: &WrappedKey, bound_to: &[&str]) -> Result<KeyBytes, KeyError> {
        let known = [Some(&self.current), self.next.as_ref()].into_iter().flatten();
        let root = known.into_iter().find(|root| root.id == wrapped.root_key_id).ok_or(KeyError::Damaged)?;
        root.unwrap(&wrapped.bytes, bound_to)
    }
}

/// Number of secrets that [`SecretVault::check_sample`] decrypts per organization.
const SAMPLED_PER_ORGANIZATION: i64 = 20;

const INSTANCE_KEY: &[&str] = &["berth instance key"];

impl SecretVault {
    /// Opens the vault of a database with the root key at `path`. Completes a rotation that was interrupted.
    pub fn open(store: &Store, path: &Path, missing: WhenMissing) -> Result<Self, KeyError> {
        // Never create a root key if the database already uses one, because that would hide the loss of the key.
        let current = match (missing, load_instance_key(store)?) {
            (WhenMissing::Create, None) => RootKey::load_or_create(path)?,
            (WhenMissing::Create | WhenMissing::Refuse, _) => RootKey::load(path)?,
        };
        let next = rotate::load_next_key(path)?;
        let roots = RootKeys { current, next };
        let instance_key = instance_key(store, &roots, path)?;
        let vault = Self {
            path: path.to_owned(),
            roots: RwLock::new(roots),
            marks: KeyedHashes::new(&instance_key),
            account_key: accounts::AccountKey::new(&instance_key),
            signing_keys: root::derive(&instance_key, b"id token signing keys v1")?,
            rotation: Mutex::default(),
        };
        if vault.is_rotating() {
            vault.rotate(store)?;
        }
        Ok(vault)
    }

    pub fn keyed_hashes(&self) -> &KeyedHashes {
        &self.marks
    }

    /// Encrypts a value for a version of a secret. Creates the organization's data key if there is none.
    pub fn seal(
        &self,
        tx: &mut Tx<'_>,
        secret: &Secret,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        let org = tx.org()?;
        let (id, key) = self.sealing_key(tx, org)?;
        let bound_to = value_binding(org, secret, secret.version, id);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        Ok(SealedValue { key: id, bytes: root::seal(&key, value.reveal().as_bytes(), &parts)? })
    }

    /// Encrypts a version of a webhook's signing secret.
    pub fn seal_signing(
        &self,
        tx: &mut Tx<'_>,
        webhook: WebhookId,
        version: i64,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        let org = tx.org()?;
        let (id, key) = self.sealing_key(tx, org)?;
        let bound_to = signing_binding(org, webhook, version, id);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        Ok(SealedValue { key: id, bytes: root::seal(&key, value.reveal().as_bytes(), &parts)? })
    }

    /// Decrypts a webhook's signing secret. Used only for signing deliveries.
    pub fn open_signing(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        webhook: WebhookId,
        secret: &SigningSecret,
    ) -> Result<RedactedString, KeyError> {
        let found = key::by_id(db, secret.sealed.key)?.ok_or(KeyError::Damaged)?;
        let key = self.data_key(org, &found)?;
        let bound_to = signing_binding(org, webhook, secret.version, secret.sealed.key);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        let plain = root::open(&key, &secret.sealed.bytes, &parts)?;
        let value = std::str::from_utf8(&plain).map_err(|_| KeyError::Damaged)?;
        Ok(RedactedString::new(value.to_owned()))
    }

    /// Encrypts the private key with this id, which signs ID tokens.
    pub(crate) fn seal_signing_key(&self, id: &str, private: &[u8]) -> Result<Vec<u8>, KeyError> {
        root::seal(&self.signing_keys, private, &["signing key", id])
    }

    pub(crate) fn open_signing_key(&self, id: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        root::open(&self.signing_keys, sealed, &["signing key", id])
    }

    /// Returns the current data key of the organization. Creates one if there is none.
    fn sealing_key(&self, tx: &mut Tx<'_>, org: OrgId) -> Result<(DataKeyId, KeyBytes), KeyError> {
        match key::find_newest(tx)? {
            Some(found) => Ok((found.id, self.data_key(org, &found)?)),
            None => self.new_data_key(tx, org),
        }
    }

    /// Decrypts a version of a secret. Records an event for each read.
    pub fn reveal(&self, tx: &mut Tx<'_>, secret: &Secret, version: i64) -> Result<RedactedString, KeyError> {
        let value = self.reveal_again(tx, secret, version)?;
        let subject = EventSubject::new("secret", secret.id, Some(secret.name.as_str()));
        tx.record(NewEvent::new(EventKind::SecretRead, subject).with("version", version))?;
        Ok(value)
    }

    /// Like [`SecretVault::reveal`], but without an event. Used for later calls of an attempt whose first call recorded
    /// the read.
    pub fn reveal_again(
        &self,
        tx: &mut Tx<'_>,
        secret: &Secret,
        version: i64,
    ) -> Result<RedactedString, KeyError> {
        let org = tx.org()?;
        self.open_value(tx, org, secret, version)
    }

    /// Verifies the keys by decrypting a sample: the current versions of the first few secrets of every organization.
    /// Returns the number of values decrypted. No value leaves the vault.
    pub fn check_sample(&self, store: &Store) -> Result<usize, KeyError> {
        let mut opened = 0;
        let mut after = None;
        loop {
            let page =
                store.read_blocking(None, move |db| Ok::<_, KeyError>(organization::list_ids(db, after)?))?;
            let Some((last, _)) = page.last() else { return Ok(opened) };
            after = Some(*last);
            for (org, _) in page {
                let listed = store.read_blocking(Some(org), move |db| {
                    let listed =
                        secret::list(db, &pagination::PageStart::Offset(0), SAMPLED_PER_ORGANIZATION)?
                            .items
                            .into_iter();
                    let sealed = |secret: Secret| {
                        let sealed =
                            secret::load_value(db, secret.id, secret.version)?.ok_or(KeyError::Damaged)?;
                        let key = key::by_id(db, sealed.key)?.ok_or(KeyError::Damaged)?;
                        Ok((secret, sealed, key))
                    };
                    listed.map(sealed).collect::<Result<Vec<_>, KeyError>>()
                })?;
                for (secret, sealed, key) in listed {
                    let bound_to = value_binding(org, &secret, secret.version, sealed.key);
                    let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
                    root::open(&self.data_key(org, &key)?, &sealed.bytes, &parts)?;
                    opened += 1;
                }
            }
        }
    }

    /// Decrypts a value without recording an event. Callers that return the value must record the read.
    fn open_value(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        secret: &Secret,
        version: i64,
    ) -> Result<RedactedString, KeyError> {
        let sealed = secret::load_value(db, secret.id, version)?.ok_or(KeyError::Damaged)?;
        let found = key::by_id(db, sealed.key)?.ok_or(KeyError::Damaged)?;
        let key = self.data_key(org, &found)?;
        let bound_to = value_binding(org, secret, version, sealed.key);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        let plain = root::open(&key, &sealed.bytes, &parts)?;
        let value = std::str::from_utf8(&plain).map_err(|_| KeyError::Damaged)?;
        Ok(RedactedString::new(value.to_owned()))
    }

    fn data_key(&self, org: OrgId, key: &DataKey) -> Result<KeyBytes, KeyError> {
        let roots = self.roots.read();
        roots.unwrap(&key.wrapped, &[&org.to_string(), &key.id.to_string()])
    }

    fn new_data_key(&self, tx: &mut Tx<'_>, org: OrgId) -> Result<(DataKeyId, KeyBytes), KeyError> {
        let id = DataKeyId::from_parts(tx.now(), tx.entropy()?);
        let bytes = root::random()?;
        let roots = self.roots.read();
        let wrapped = wrap_key(roots.wrapping_key(), &bytes, &[&org.to_string(), &id.to_string()])?;
        key::insert(tx, &DataKey { id, wrapped })?;
        Ok((id, bytes))
    }
}

/// Returns the id of the root key in a file. Fails in the same cases as opening a vault does.
pub fn root_key_id(path: &Path) -> Result<String, KeyError> {
    RootKey::load(path).map(|key| key.id)
}

/// Returns the associated data that the encryption binds a value to.
fn value_binding(org: OrgId, secret: &Secret, version: i64, key: DataKeyId) -> [String; 5] {
    [org.to_string(), secret.scope.to_string(), secret.name.to_string(), version.to_string(), key.to_string()]
}

fn signing_binding(org: OrgId, webhook: WebhookId, version: i64, key: DataKeyId) -> [String; 5] {
    let what = "webhook".to_owned();
    [org.to_string(), what, webhook.to_string(), version.to_string(), key.to_string()]
}

fn wrap_key(root: &RootKey, key: &KeyBytes, bound_to: &[&str]) -> Result<WrappedKey, KeyError> {
    Ok(WrappedKey { root_key_id: root.id.clone(), bytes: root.wrap(key, bound_to)? })
}

fn load_instance_key(store: &Store) -> Result<Option<WrappedKey>, KeyError> {
    store.read_blocking(None, |db| Ok(key::load_instance_key(db)?))
}

/// Returns the installation's key. It is created together with the database, and the ability to unwrap it proves that a
/// root key belongs to this database. Only the first start writes it, so later starts do not have to wait for the write
/// lock.
fn instance_key(store: &Store, roots: &RootKeys, path: &Path) -> Result<KeyBytes, KeyError> {
    let found = match load_instance_key(store)? {
        Some(found) => found,
        None => {
            let candidate = wrap_key(roots.wrapping_key(), &root::random()?, INSTANCE_KEY)?;
            store.transact_blocking(TxContext::system(None), move |tx| {
                if let Some(found) = key::load_instance_key(tx)? {
                    return Ok(found);
                }
                key::put_instance_key(tx, &candidate)?;
                Ok::<_, StoreError>(candidate)
            })?
        }
    };
    roots.unwrap(&found, INSTANCE_KEY).map_err(|_| KeyError::WrongKey {
        path: path.to_owned(),
        found: roots.current.id.clone(),
        wanted: found.root_key_id,
    })
}
