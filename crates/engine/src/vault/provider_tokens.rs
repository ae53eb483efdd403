//! Encryption of tokens that identity providers have issued.

use std::fmt::Display;

use berth_core::id::{DataKeyId, OrgId};
use berth_store::tables::key;
use berth_store::tables::secret::SealedValue;
use berth_store::{StoreRead, Tx};

use super::{KeyError, SecretVault, root};
use crate::credential::RedactedString;

/// What a token of an identity provider is for. A value cannot be decrypted as another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderTokenKind {
    /// Asks the provider whether the account is still valid.
    Refresh,
    /// Logs the person out at the provider.
    Id,
}

impl SecretVault {
    /// Encrypts a token for the record `owner`, in the transaction's organization.
    pub fn seal_provider_token(
        &self,
        tx: &mut Tx<'_>,
        kind: ProviderTokenKind,
        owner: impl Display,
        value: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        let org = tx.org()?;
        let (id, key) = self.sealing_key(tx, org)?;
        let bound_to = binding(org, kind, owner, id);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        Ok(SealedValue { key: id, bytes: root::seal(&key, value.reveal().as_bytes(), &parts)? })
    }

    /// Decrypts a token. `db` must read the organization `org`.
    pub fn open_provider_token(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        kind: ProviderTokenKind,
        owner: impl Display,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        let found = key::by_id(db, sealed.key)?.ok_or(KeyError::Damaged)?;
        let key = self.data_key(org, &found)?;
        let bound_to = binding(org, kind, owner, sealed.key);
        let parts: Vec<&str> = bound_to.iter().map(String::as_str).collect();
        let plain = root::open(&key, &sealed.bytes, &parts)?;
        let value = std::str::from_utf8(&plain).map_err(|_| KeyError::Damaged)?;
        Ok(RedactedString::new(value.to_owned()))
    }
}

fn binding(org: OrgId, kind: ProviderTokenKind, owner: impl Display, key: DataKeyId) -> [String; 4] {
    let what = match kind {
        ProviderTokenKind::Refresh => "provider refresh token",
        ProviderTokenKind::Id => "provider id token",
    };
    [org.to_string(), what.to_owned(), owner.to_string(), key.to_string()]
}
