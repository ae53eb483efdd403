//! Encryption of the secrets with which forges sign their deliveries.

use berth_core::id::{DataKeyId, HookId, OrgId};
use berth_store::tables::key;
use berth_store::tables::secret::SealedValue;
use berth_store::{StoreRead, Tx};

use super::{KeyError, SecretVault, root};
use crate::credential::RedactedString;

impl SecretVault {
    /// Encrypts the secret of a forge's webhook. It can be decrypted only for the same webhook.
    pub fn seal_hook_secret(
        &self,
        tx: &mut Tx<'_>,
        hook: HookId,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        let org = tx.org()?;
        let (id, key) = self.sealing_key(tx, org)?;
        let bound_to = binding(org, hook, id);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        Ok(SealedValue { key: id, bytes: root::seal(&key, value.reveal().as_bytes(), &parts)? })
    }

    pub fn open_hook_secret(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        hook: HookId,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        let found = key::by_id(db, sealed.key)?.ok_or(KeyError::Damaged)?;
        let bound_to = binding(org, hook, sealed.key);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        let plain = root::open(&self.data_key(org, &found)?, &sealed.bytes, &parts)?;
        let value = std::str::from_utf8(&plain).map_err(|_| KeyError::Damaged)?;
        Ok(RedactedString::new(value.to_owned()))
    }
}

fn binding(org: OrgId, hook: HookId, key: DataKeyId) -> [String; 4] {
    [org.to_string(), "forge hook".to_owned(), hook.to_string(), key.to_string()]
}
