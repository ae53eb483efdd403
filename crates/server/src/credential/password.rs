//! Passwords: Argon2id, a few at a time, the same work whether the account exists or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::{Redacted, random_base62};
use crate::error::AppError;
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
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Verified when there is no account, so that both cases take the same time.
    decoy: Arc<OnceLock<String>>,
}

impl Passwords {
    pub fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(PASSWORD_HASHES_AT_ONCE)),
            waiting: AtomicUsize::new(0),
            decoy: Arc::default(),
        }
    }

    pub async fn hash(&self, password: Redacted) -> Result<String, AppError> {
        self.bounded(move || hash(&password)).await
    }

    /// `stored` is the account's hash, or `None` when there is no such account.
    pub async fn verify(&self, password: Redacted, stored: Option<String>) -> Result<bool, AppError> {
        let exists = stored.is_some();
        let decoy = self.decoy.clone();
        self.bounded(move || {
            let decoy = decoy.get_or_init(|| hash(&generate()));
            verify(&password, stored.as_ref().unwrap_or(decoy)) && exists
        })
        .await
    }

    async fn bounded<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AppError> {
        let _place = Place::take(&self.waiting).ok_or_else(|| AppError::busy("too many sign-ins at once"))?;
        let permit =
            self.running.clone().acquire_owned().await.map_err(|_| AppError::busy("shutting down"))?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        done.await.map_err(|_| AppError::bug("password hashing panicked"))
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

/// A place among those who wait, given back on drop.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<Self> {
        let most = PASSWORD_HASHES_WAITING_MAX + PASSWORD_HASHES_AT_ONCE;
        let taken =
            waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < most).then_some(n + 1));
        taken.is_ok().then_some(Self(waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
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
