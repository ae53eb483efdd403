//! Passwords: Argon2id, a few at a time, the same work whether the account exists or not.

use std::sync::{Arc, OnceLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

use super::{Redacted, random_base62};
use crate::error::AppError;
use crate::gate::Gate;
use crate::limits::{
    PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX,
};

const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 1;
const GENERATED_CHARS: usize = 20;
/// Fewer different characters than this is a pattern, not a password.
const DISTINCT_CHARS_MIN: usize = 5;
/// Letters and digits beside the names anybody would try first.
const OWN_CHARS_MIN: usize = 8;

pub struct Passwords {
    /// Signing in does not wait behind making accounts.
    verifying: Gate,
    making: Gate,
    /// Verified when there is no account, so that both cases take the same time.
    decoy: Arc<OnceLock<String>>,
}

impl Passwords {
    pub fn new() -> Self {
        let gate = || Gate::new(PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX);
        Self { verifying: gate(), making: gate(), decoy: Arc::default() }
    }

    pub async fn hash(&self, password: Redacted) -> Result<String, AppError> {
        self.making.run(move || hash(&password)).await
    }

    /// `stored` is the account's hash, or `None` when there is no such account.
    pub async fn verify(&self, password: Redacted, stored: Option<String>) -> Result<bool, AppError> {
        let exists = stored.is_some();
        let decoy = self.decoy.clone();
        self.verifying
            .run(move || {
                let decoy = decoy.get_or_init(|| hash(&generate()));
                verify(&password, stored.as_ref().unwrap_or(decoy)) && exists
            })
            .await
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

pub fn generate() -> Redacted {
    Redacted::new(random_base62(GENERATED_CHARS))
}

pub fn hash(password: &Redacted) -> String {
    let hashed = hasher().hash_password(password.reveal().as_bytes());
    hashed.unwrap_or_else(|_| unreachable!("the parameters are constants and valid")).to_string()
}

fn verify(password: &Redacted, stored: &str) -> bool {
    PasswordHash::new(stored)
        .is_ok_and(|parsed| hasher().verify_password(password.reveal().as_bytes(), &parsed).is_ok())
}

fn hasher() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None);
    let params = params.unwrap_or_else(|_| unreachable!("the parameters are constants and valid"));
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Why a new password is not good enough, if it is not. `names` are those anybody would try first.
pub fn weakness(password: &str, names: &[&str]) -> Option<String> {
    let chars = password.chars().count();
    if !(PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&chars) {
        return Some(format!("must have {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters"));
    }
    let distinct: std::collections::BTreeSet<char> = password.chars().collect();
    if distinct.len() < DISTINCT_CHARS_MIN {
        return Some("repeats too few characters; a sentence is a good password".into());
    }
    let rest = names
        .iter()
        .chain(&["berth", "password"])
        .fold(password.to_lowercase(), |rest, name| rest.replace(&name.to_lowercase(), ""));
    (rest.chars().filter(|c| c.is_alphanumeric()).count() < OWN_CHARS_MIN)
        .then(|| "is little more than the name of the account, the organization or the product".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_verifies_its_password_and_no_other() {
        let password = generate();
        let stored = hash(&password);
        assert!(stored.starts_with("$argon2id$v=19$m=65536,t=3,p=1$"));
        assert!(verify(&password, &stored));
        assert!(!verify(&generate(), &stored));
        assert!(!verify(&password, "not a hash"));
    }

    #[test]
    fn weak_passwords_are_named_as_such() {
        let names = ["ada@acme.test", "acme"];
        for weak in
            ["short", "aaaaaaaaaaaaaaaaaaaa", "ada@acme.test12", "Acme Acme Acme Berth!", &"x".repeat(257)]
        {
            assert!(weakness(weak, &names).is_some(), "{weak} was accepted");
        }
        assert_eq!(weakness("a quiet harbour at dawn", &names), None);
        assert_eq!(weakness(generate().reveal(), &names), None);
    }
}
