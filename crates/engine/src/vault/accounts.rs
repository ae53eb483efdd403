//! Encryption of secrets that belong to an account, such as the secret of a second factor.
//!
//! An account belongs to no organization, so its secrets are encrypted with a key that is derived from the
//! installation's key. A rotation of the root key does not change that key.

use aws_lc_rs::hkdf::{self, KeyType};
use berth_core::id::UserId;
use zeroize::Zeroizing;

use super::root::{self, KeyBytes};
use super::{KeyError, SecretVault};

/// The key for secrets of accounts.
pub(super) struct AccountKey(KeyBytes);

struct AccountKeyLength;

impl KeyType for AccountKeyLength {
    fn len(&self) -> usize {
        size_of::<KeyBytes>()
    }
}

impl AccountKey {
    pub(super) fn new(instance_key: &KeyBytes) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, b"berth accounts v1").extract(&**instance_key);
        let mut key = KeyBytes::default();
        let info = [b"account secrets".as_slice()];
        let filled = derived.expand(&info, AccountKeyLength).and_then(|okm| okm.fill(&mut *key));
        filled.unwrap_or_else(|_| unreachable!("32 bytes are always available from HKDF-SHA256"));
        Self(key)
    }
}

impl SecretVault {
    /// Encrypts the secret of an account's second factor. It can be decrypted only for the same account.
    pub fn seal_second_factor(&self, user: UserId, secret: &[u8]) -> Result<Vec<u8>, KeyError> {
        root::seal(&self.account_key.0, secret, &["second factor", &user.to_string()])
    }

    pub fn open_second_factor(&self, user: UserId, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        root::open(&self.account_key.0, sealed, &["second factor", &user.to_string()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_key_depends_on_the_installation() {
        let key = |byte| AccountKey::new(&KeyBytes::new([byte; 32])).0;
        assert_eq!(*key(1), *key(1));
        assert_ne!(*key(1), *key(2));
        assert_ne!(*key(1), [1; 32], "the key itself is not used");
    }
}
