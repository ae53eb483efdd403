//! Encryption of the secrets with which forges sign their deliveries, and of the private keys of GitHub Apps.

use std::fmt::Display;

use berth_core::id::{DataKeyId, ForgeAppId, HookId, OrgId};
use berth_store::tables::key;
use berth_store::tables::secret::SealedValue;
use berth_store::{StoreRead, Tx};

use super::{KeyError, SecretVault, root};
use crate::credential::RedactedString;

const HOOK: &str = "forge hook";
const APP: &str = "forge app";

impl SecretVault {
    /// Encrypts the secret of a forge's webhook. It can be decrypted only for the same webhook.
    pub fn seal_hook_secret(
        &self,
        tx: &mut Tx<'_>,
        hook: HookId,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        self.seal_bound(tx, HOOK, hook, value)
    }

    pub fn open_hook_secret(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        hook: HookId,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        self.open_bound(db, org, (HOOK, hook), sealed)
    }

    /// Encrypts the private key of a GitHub App. It can be decrypted only for the same app.
    pub fn seal_app_key(
        &self,
        tx: &mut Tx<'_>,
        app: ForgeAppId,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        self.seal_bound(tx, APP, app, value)
    }

    pub fn open_app_key(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        app: ForgeAppId,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        self.open_bound(db, org, (APP, app), sealed)
    }

    /// Encrypts a value that can be decrypted only with the same `kind` and `of`.
    pub(super) fn seal_bound(
        &self,
        tx: &mut Tx<'_>,
        kind: &str,
        of: impl Display,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        let org = tx.org()?;
        let (id, key) = self.sealing_key(tx, org)?;
        let bound_to = binding(org, kind, of, id);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        Ok(SealedValue { key: id, bytes: root::seal(&key, value.reveal().as_bytes(), &parts)? })
    }

    pub(super) fn open_bound(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        (kind, of): (&str, impl Display),
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        let found = key::by_id(db, sealed.key)?.ok_or(KeyError::Damaged)?;
        let bound_to = binding(org, kind, of, sealed.key);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        let plain = root::open(&self.data_key(org, &found)?, &sealed.bytes, &parts)?;
        let value = std::str::from_utf8(&plain).map_err(|_| KeyError::Damaged)?;
        Ok(RedactedString::new(value.to_owned()))
    }
}

fn binding(org: OrgId, kind: &str, of: impl Display, key: DataKeyId) -> [String; 4] {
    [org.to_string(), kind.to_owned(), of.to_string(), key.to_string()]
}
