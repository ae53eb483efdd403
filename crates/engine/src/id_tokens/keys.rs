//! Signing keys and their rotation.
//!
//! A new key is published a day before it signs, so that services which cache the key set know it in time. A replaced
//! key stays published until every token that it signed has expired. The keys are in the database: all servers sign
//! with the same key.

use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_core::time::Timestamp;
use berth_store::TxContext;
use berth_store::tables::signing_key::{self, StoredSigningKey};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{ALGORITHM, TOKEN_S};
use crate::error::EngineError;
use crate::services::Services;
use crate::vault::SecretVault;

/// How long a key signs, in seconds.
const SIGNING_PERIOD_S: i64 = 30 * 24 * 60 * 60;
/// How long a key is published before it signs, in seconds. Longer than any service may cache the key set.
const PUBLISHED_BEFORE_S: i64 = 24 * 60 * 60;
/// How long a replaced key stays published, in seconds. Longer than its last token is valid, for slow clocks.
const PUBLISHED_AFTER_S: i64 = TOKEN_S + 50 * 60;

pub(super) struct SigningKey {
    pub(super) id: String,
    pub(super) pair: KeyPair,
}

/// Returns the public keys as a JSON Web Key Set.
pub async fn published_keys(services: &Services) -> Result<Value, EngineError> {
    let stored = services.store.read(None, |db| Ok::<_, EngineError>(signing_key::list(db)?)).await?;
    let keys = stored.iter().map(|key| {
        let parsed: Result<Value, _> = serde_json::from_str(&key.public_key);
        parsed.map_err(|_| EngineError::bug(format!("the public key {} is not JSON", key.id)))
    });
    Ok(json!({ "keys": keys.collect::<Result<Vec<_>, _>>()? }))
}

/// Adds a key when the current one is due for replacement or there is none, and removes keys that are no longer needed.
/// Blocks. Idempotent.
pub fn rotate_signing_keys(services: &Services) -> Result<(), EngineError> {
    let (stored, now) = load(services)?;
    if is_key_due(&stored, now) {
        // Takes up to a second, so it happens before the transaction.
        let made = generate(&services.vault)?;
        services.store.transact_blocking(TxContext::system(None), move |tx| {
            let (stored, now) = (signing_key::list_for_update(tx)?, tx.now());
            if !is_key_due(&stored, now) {
                return Ok(());
            }
            let signs_from = if stored.is_empty() { now } else { now.plus_seconds(PUBLISHED_BEFORE_S) };
            let key = StoredSigningKey { created_at: now, signs_from, ..made };
            tracing::info!(key = key.id, "signing key for ID tokens added");
            Ok::<_, EngineError>(signing_key::insert(tx, &key)?)
        })?;
    }
    if list_unneeded(&stored, now).is_empty() {
        return Ok(());
    }
    services.store.transact_blocking(TxContext::system(None), |tx| {
        let (stored, now) = (signing_key::list_for_update(tx)?, tx.now());
        for id in list_unneeded(&stored, now) {
            tracing::info!(key = id, "signing key for ID tokens removed");
            signing_key::delete(tx, &id)?;
        }
        Ok(())
    })
}

/// Returns the key that signs now, and the time. Creates the first key if the background job has not done so yet.
pub(super) fn load_signing_key(services: &Services) -> Result<(SigningKey, Timestamp), EngineError> {
    let (mut stored, mut now) = load(services)?;
    if stored.is_empty() {
        rotate_signing_keys(services)?;
        (stored, now) = load(services)?;
    }
    let current = stored.iter().find(|key| key.signs_from <= now).or(stored.last());
    let current = current.ok_or_else(|| EngineError::bug("there is no signing key"))?;
    let plain = services.vault.open_signing_key(&current.id, &current.sealed)?;
    let pair = KeyPair::from_pkcs8(&plain);
    let pair = pair.map_err(|_| EngineError::bug(format!("the signing key {} is damaged", current.id)))?;
    Ok((SigningKey { id: current.id.clone(), pair }, now))
}

fn load(services: &Services) -> Result<(Vec<StoredSigningKey>, Timestamp), EngineError> {
    services.store.read_blocking(None, |db| Ok::<_, EngineError>((signing_key::list(db)?, db.now())))
}

/// Whether a successor must be published now. `stored` is sorted by the time when keys start to sign, latest first.
fn is_key_due(stored: &[StoredSigningKey], now: Timestamp) -> bool {
    let replaced_at = |key: &StoredSigningKey| key.signs_from.plus_seconds(SIGNING_PERIOD_S);
    stored.first().is_none_or(|latest| replaced_at(latest).plus_seconds(-PUBLISHED_BEFORE_S) <= now)
}

/// Ids of the keys whose last token has expired.
fn list_unneeded(stored: &[StoredSigningKey], now: Timestamp) -> Vec<String> {
    let pairs = stored.windows(2);
    let is_over = |pair: &&[StoredSigningKey]| pair[0].signs_from.plus_seconds(PUBLISHED_AFTER_S) <= now;
    pairs.filter(is_over).map(|pair| pair[1].id.clone()).collect()
}

/// Generates a key pair. The times are placeholders.
fn generate(vault: &SecretVault) -> Result<StoredSigningKey, EngineError> {
    let failed = |_| EngineError::bug("a signing key cannot be generated");
    let pair = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    let public = pair.public_key();
    let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let modulus = number(public.modulus().big_endian_without_leading_zero());
    let exponent = number(public.exponent().big_endian_without_leading_zero());
    // The thumbprint of RFC 7638: the required members in alphabetical order.
    let members = format!(r#"{{"e":"{exponent}","kty":"RSA","n":"{modulus}"}}"#);
    let id = number(digest::digest(&digest::SHA256, members.as_bytes()).as_ref());
    let jwk = json!({"kty": "RSA", "use": "sig", "alg": ALGORITHM, "kid": id, "n": modulus, "e": exponent});
    let private = pair.as_der().map_err(failed)?;
    let private = Zeroizing::new(private.as_ref().to_vec());
    let sealed = vault.seal_signing_key(&id, &private)?;
    let unset = Timestamp::from_micros(0);
    Ok(StoredSigningKey { id, public_key: jwk.to_string(), sealed, created_at: unset, signs_from: unset })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: i64 = 24 * 60 * 60;

    fn key(id: &str, signs_from_s: i64) -> StoredSigningKey {
        let at = Timestamp::from_micros(0).plus_seconds(signs_from_s);
        let (public_key, sealed) = (String::new(), Vec::new());
        StoredSigningKey { id: id.into(), public_key, sealed, created_at: at, signs_from: at }
    }

    #[test]
    fn signing_key_gets_a_successor_a_day_before_it_is_replaced() {
        let at = |seconds| Timestamp::from_micros(0).plus_seconds(seconds);
        assert!(is_key_due(&[], at(0)));
        assert!(!is_key_due(&[key("a", 0)], at(29 * DAY_S - 1)));
        assert!(is_key_due(&[key("a", 0)], at(29 * DAY_S)));
        assert!(!is_key_due(&[key("b", 30 * DAY_S), key("a", 0)], at(29 * DAY_S)));
    }

    #[test]
    fn replaced_signing_key_stays_published_while_its_tokens_are_valid() {
        let stored = [key("b", 30 * DAY_S), key("a", 0)];
        let at = |seconds| Timestamp::from_micros(0).plus_seconds(30 * DAY_S + seconds);
        assert_eq!(list_unneeded(&stored, at(TOKEN_S)), Vec::<String>::new());
        assert_eq!(list_unneeded(&stored, at(PUBLISHED_AFTER_S)), ["a"]);
        assert_eq!(list_unneeded(&stored[..1], at(PUBLISHED_AFTER_S)), Vec::<String>::new());
    }
}
