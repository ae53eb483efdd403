//! Password hashing with Argon2id, with bounded concurrency. Verification takes the same time whether the account
//! exists or not.

use std::sync::{Arc, OnceLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use berth_engine::admission::AdmissionControl;
use berth_engine::credential::{RedactedString, random_base62};

use crate::error::AppError;
use crate::limits::{
    PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX,
};

const MEMORY_KIB_DEFAULT: u32 = 64 * 1024;
const MEMORY_KIB_MIN: u32 = 8 * 1024;
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const PASSES_DEFAULT: u32 = 3;
const PASSES_MAX: u32 = 16;
const LANES: u32 = 1;
const GENERATED_CHARS: usize = 20;
/// Minimum number of distinct characters in a password.
const DISTINCT_CHARS_MIN: usize = 5;
/// Minimum number of letters and digits that remain after obvious names are removed from a password.
const OWN_CHARS_MIN: usize = 8;

/// Cost parameters for hashing a password. A stored hash contains its own parameters, so hashes with other costs can
/// still be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordCost {
    memory_kib: u32,
    passes: u32,
}

impl PasswordCost {
    /// The lowest accepted cost, for tests: 1/24 of the default.
    pub const MIN: Self = Self { memory_kib: MEMORY_KIB_MIN, passes: 1 };

    pub fn new(memory_kib: u32, passes: u32) -> Result<Self, String> {
        if !(MEMORY_KIB_MIN..=MEMORY_KIB_MAX).contains(&memory_kib) {
            return Err(format!("memory_kib must be {MEMORY_KIB_MIN} to {MEMORY_KIB_MAX}, not {memory_kib}"));
        }
        if !(1..=PASSES_MAX).contains(&passes) {
            return Err(format!("passes must be 1 to {PASSES_MAX}, not {passes}"));
        }
        Ok(Self { memory_kib, passes })
    }

    pub fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    pub fn passes(self) -> u32 {
        self.passes
    }

    pub fn is_below_default(self) -> bool {
        self.memory_kib < MEMORY_KIB_DEFAULT || self.passes < PASSES_DEFAULT
    }
}

impl Default for PasswordCost {
    fn default() -> Self {
        Self { memory_kib: MEMORY_KIB_DEFAULT, passes: PASSES_DEFAULT }
    }
}

pub struct PasswordService {
    cost: PasswordCost,
    /// Separate from `making`, so that logins do not wait for the hashing of new passwords.
    verifying: AdmissionControl<()>,
    making: AdmissionControl<()>,
    /// A hash that is verified when the account does not exist, so that both cases take the same time.
    decoy: Arc<OnceLock<String>>,
}

impl PasswordService {
    pub fn new(cost: PasswordCost) -> Self {
        let gate = || AdmissionControl::new(PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX);
        Self { cost, verifying: gate(), making: gate(), decoy: Arc::default() }
    }

    pub async fn hash(&self, password: RedactedString) -> Result<String, AppError> {
        let cost = self.cost;
        Ok(self.making.run((), move || hash(&password, cost)).await?)
    }

    /// `stored` is the account's hash, or `None` if the account does not exist.
    pub async fn verify(&self, password: RedactedString, stored: Option<String>) -> Result<bool, AppError> {
        let exists = stored.is_some();
        let (decoy, cost) = (self.decoy.clone(), self.cost);
        let matches = self
            .verifying
            .run((), move || {
                let decoy = decoy.get_or_init(|| hash(&generate(), cost));
                verify(&password, stored.as_ref().unwrap_or(decoy)) && exists
            })
            .await?;
        Ok(matches)
    }
}

pub fn generate() -> RedactedString {
    RedactedString::new(random_base62(GENERATED_CHARS))
}

pub fn hash(password: &RedactedString, cost: PasswordCost) -> String {
    let hashed = hasher(cost).hash_password(password.reveal().as_bytes());
    hashed.unwrap_or_else(|_| unreachable!("the parameters are constants and valid")).to_string()
}

fn verify(password: &RedactedString, stored: &str) -> bool {
    PasswordHash::new(stored).is_ok_and(|parsed| {
        hasher(PasswordCost::default()).verify_password(password.reveal().as_bytes(), &parsed).is_ok()
    })
}

fn hasher(cost: PasswordCost) -> Argon2<'static> {
    let params = Params::new(cost.memory_kib, cost.passes, LANES, None);
    let params = params.unwrap_or_else(|_| unreachable!("the parameters are constants and valid"));
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Returns why a new password is too weak, or `None` if it is strong enough. `names` are obvious guesses, such as the
/// account's name.
pub fn weakness(password: &str, names: &[&str]) -> Option<String> {
    let chars = password.chars().count();
    if !(PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&chars) {
        return Some(format!("must have {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters"));
    }
    let distinct: std::collections::BTreeSet<char> = password.chars().collect();
    if distinct.len() < DISTINCT_CHARS_MIN {
        return Some("has too few different characters; a sentence is a good password".into());
    }
    let rest = names
        .iter()
        .chain(&["berth", "password"])
        .fold(password.to_lowercase(), |rest, name| rest.replace(&name.to_lowercase(), ""));
    (rest.chars().filter(|c| c.is_alphanumeric()).count() < OWN_CHARS_MIN)
        .then(|| "is too similar to the name of the account, the organization or the product".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_verifies_only_its_own_password() {
        let password = generate();
        let stored = hash(&password, PasswordCost::default());
        assert!(stored.starts_with("$argon2id$v=19$m=65536,t=3,p=1$"));
        assert!(verify(&password, &stored));
        assert!(!verify(&generate(), &stored));
        assert!(!verify(&password, "not a hash"));
    }

    #[test]
    fn hash_with_another_cost_verifies() {
        let password = generate();
        let stored = hash(&password, PasswordCost::MIN);
        assert!(stored.starts_with("$argon2id$v=19$m=8192,t=1,p=1$"), "{stored}");
        assert!(verify(&password, &stored));
        assert!(!verify(&generate(), &stored));
    }

    #[test]
    fn cost_outside_limits_is_refused() {
        for (memory_kib, passes) in [(8 * 1024 - 1, 1), (1024 * 1024 + 1, 1), (8 * 1024, 0), (8 * 1024, 17)] {
            assert!(PasswordCost::new(memory_kib, passes).is_err(), "{memory_kib} {passes}");
        }
        assert_eq!(PasswordCost::new(8 * 1024, 1), Ok(PasswordCost::MIN));
    }

    #[test]
    fn weak_password_is_refused_and_strong_one_accepted() {
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
