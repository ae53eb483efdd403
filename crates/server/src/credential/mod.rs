//! Credentials: API tokens, browser cookies, passwords.

pub(crate) mod callers;
pub mod password;
pub mod token;

/// A value that must not be printed by accident.
#[derive(Clone)]
pub struct Redacted(zeroize::Zeroizing<String>);

impl Redacted {
    pub fn new(value: String) -> Self {
        Self(zeroize::Zeroizing::new(value))
    }

    /// The value, for the one place that shows or checks it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

pub(crate) const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// So many random characters of base 62, each equally likely.
pub fn random_base62(chars: usize) -> String {
    let mut out = String::with_capacity(chars);
    let mut buffer = [0u8; 64];
    while out.len() < chars {
        // Without random bytes there are no secrets to make; every platform we run on provides them.
        assert!(aws_lc_rs::rand::fill(&mut buffer).is_ok(), "the system gave no random bytes");
        let even = buffer.iter().filter(|byte| **byte < 62 * 4).map(|byte| BASE62[usize::from(byte % 62)]);
        out.extend(even.map(char::from).take(chars - out.len()));
    }
    out
}
