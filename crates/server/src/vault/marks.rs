//! Marks: short keyed hashes by which the server recognises what it gave out or saw before.

use aws_lc_rs::{constant_time, hkdf, hmac};

use super::root::KeyBytes;

/// Each use has a key of its own, made from the installation's key.
pub struct Marks {
    request_hash: hmac::Key,
    csrf: hmac::Key,
}

impl Marks {
    pub(super) fn new(key: &KeyBytes) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, b"berth marks v1").extract(&**key);
        let key = |purpose: &[u8]| {
            let info = [purpose];
            let made = derived.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from);
            made.unwrap_or_else(|_| unreachable!("32 bytes are always available from HKDF-SHA256"))
        };
        Self { request_hash: key(b"idempotency request hash"), csrf: key(b"csrf token") }
    }

    /// A hash of a request's body that says nothing about it to somebody without the key.
    pub fn request_hash(&self, body: &[u8]) -> Vec<u8> {
        hmac::sign(&self.request_hash, body).as_ref().to_vec()
    }

    /// The token a browser must send with changes, bound to its sign-in.
    pub fn csrf_token(&self, sign_in: &str) -> String {
        hex(hmac::sign(&self.csrf, sign_in.as_bytes()).as_ref())
    }

    pub fn is_csrf_token(&self, sign_in: &str, sent: &str) -> bool {
        let wanted = self.csrf_token(sign_in);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csrf_token_belongs_to_one_sign_in() {
        let marks = Marks::new(&KeyBytes::new([7; 32]));
        let token = marks.csrf_token("sgn_a");
        assert!(marks.is_csrf_token("sgn_a", &token));
        assert!(!marks.is_csrf_token("sgn_b", &token));
        assert!(!marks.is_csrf_token("sgn_a", ""));
    }
}
