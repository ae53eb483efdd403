//! Finds and masks secret values in text that is about to leave the server.

use berth_core::id::OrgId;
use berth_core::mask::SecretMasker;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::secret;

use super::{KeyError, SecretVault};
use crate::limits::SECRETS_PER_ORGANIZATION_MAX;

/// Maximum number of secrets in one masker.
const SECRETS_AT_ONCE: i64 = 100;

impl SecretVault {
    /// Whether `text` contains one of the organization's secret values, in any of the encodings that are masked in
    /// logs. No value leaves the vault.
    pub fn contains_secret(&self, db: &mut impl StoreRead, org: OrgId, text: &str) -> Result<bool, KeyError> {
        let mut is_found = false;
        self.with_maskers(db, org, |masker| {
            is_found = is_found || masker.contains_secret(text);
        })?;
        Ok(is_found)
    }

    /// Masks the organization's secret values in `text`, in the same way as in logs.
    pub fn mask_text(&self, db: &mut impl StoreRead, org: OrgId, text: &str) -> Result<String, KeyError> {
        let mut text = text.to_owned();
        self.with_maskers(db, org, |masker| {
            if masker.contains_secret(&text) {
                text = masker.mask(&text);
            }
        })?;
        Ok(text)
    }

    /// Calls `each` with one masker after another. Together the maskers cover all secrets of the organization.
    fn with_maskers(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        mut each: impl FnMut(&SecretMasker),
    ) -> Result<(), KeyError> {
        let mut from = PageStart::Offset(0);
        for _ in 0..=SECRETS_PER_ORGANIZATION_MAX / SECRETS_AT_ONCE {
            let slice = secret::list(db, &from, SECRETS_AT_ONCE)?;
            let mut values = Vec::with_capacity(slice.items.len());
            for secret in &slice.items {
                values.push(self.open_value(db, org, secret, secret.version)?);
            }
            let revealed: Vec<&str> = values.iter().map(crate::credential::RedactedString::reveal).collect();
            each(&SecretMasker::new(&revealed));
            match slice.items.last() {
                Some(last) if slice.has_more => from = PageStart::After(last.id.to_string()),
                _ => break,
            }
        }
        Ok(())
    }
}
