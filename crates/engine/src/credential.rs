//! A string type for secret values, and a generator of random base62 strings.

/// A secret value. `Debug` prints a placeholder, and the memory is zeroed on drop.
#[derive(Clone)]
pub struct RedactedString(zeroize::Zeroizing<String>);

impl RedactedString {
    pub fn new(value: String) -> Self {
        Self(zeroize::Zeroizing::new(value))
    }

    /// Returns the plain value. Call this only where the value itself is needed, for example to show or check it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for RedactedString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

pub const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns `chars` uniformly distributed base62 characters.
pub fn random_base62(chars: usize) -> String {
    let mut out = String::with_capacity(chars);
    let mut buffer = [0u8; 64];
    while out.len() < chars {
        // Without random bytes no secret can be generated. All supported platforms provide them.
        assert!(aws_lc_rs::rand::fill(&mut buffer).is_ok(), "the system gave no random bytes");
        let even = buffer.iter().filter(|byte| **byte < 62 * 4).map(|byte| BASE62[usize::from(byte % 62)]);
        out.extend(even.map(char::from).take(chars - out.len()));
    }
    out
}
