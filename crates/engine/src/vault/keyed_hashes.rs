//! Keyed hashes (HMAC) for request bodies, CSRF tokens, browser cookies, recovery codes, codes of CLI logins, logins at
//! identity providers and action links.

use aws_lc_rs::{constant_time, hkdf, hmac};

use super::root::KeyBytes;
use crate::credential::random_base62;

const BROWSER_ID_CHARS: usize = 20;

/// HMAC keys, one per purpose, derived from the installation's key.
pub struct KeyedHashes {
    request_hash: hmac::Key,
    csrf: hmac::Key,
    browser: hmac::Key,
    recovery_code: hmac::Key,
    user_code: hmac::Key,
    provider_login: hmac::Key,
    action_link: hmac::Key,
}

impl KeyedHashes {
    pub(super) fn new(key: &KeyBytes) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, b"berth marks v1").extract(&**key);
        let key = |purpose: &[u8]| {
            let info = [purpose];
            let made = derived.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from);
            made.unwrap_or_else(|_| unreachable!("32 bytes are always available from HKDF-SHA256"))
        };
        Self {
            request_hash: key(b"idempotency request hash"),
            csrf: key(b"csrf token"),
            browser: key(b"known browser"),
            recovery_code: key(b"recovery code"),
            user_code: key(b"cli login user code"),
            provider_login: key(b"provider login"),
            action_link: key(b"action link"),
        }
    }

    /// Returns a hash of a request body. Without the key, the hash reveals nothing about the body.
    pub fn request_hash(&self, body: &[u8]) -> Vec<u8> {
        hmac::sign(&self.request_hash, body).as_ref().to_vec()
    }

    /// Returns a hash of the code that a person confirms for a login of the CLI. The code is short, so without the key
    /// it could be found by trying all codes.
    pub fn user_code_hash(&self, code: &str) -> Vec<u8> {
        hmac::sign(&self.user_code, code.as_bytes()).as_ref().to_vec()
    }

    /// Returns the CSRF token of a browser session. The token is only valid for that login.
    pub fn csrf_token(&self, sign_in: &str) -> String {
        hex(hmac::sign(&self.csrf, sign_in.as_bytes()).as_ref())
    }

    pub fn is_csrf_token(&self, sign_in: &str, sent: &str) -> bool {
        let wanted = self.csrf_token(sign_in);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
    }

    /// Creates a cookie that identifies a browser in which this account has logged in.
    pub fn new_browser_cookie(&self, account: &str) -> String {
        let id = random_base62(BROWSER_ID_CHARS);
        let signature = self.sign_browser(account, &id);
        format!("{id}.{signature}")
    }

    /// Verifies that a cookie was issued for this account, and returns the browser's id.
    pub fn verify_browser_cookie<'a>(&self, account: &str, sent: &'a str) -> Option<&'a str> {
        let (id, signature) = sent.split_once('.')?;
        let wanted = self.sign_browser(account, id);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), signature.as_bytes()).ok()?;
        Some(id)
    }

    /// Returns the stored hash of a recovery code. Without the key, codes cannot be guessed from their hashes.
    pub fn recovery_code(&self, account: &str, code: &str) -> Vec<u8> {
        hmac::sign(&self.recovery_code, format!("{account}.{code}").as_bytes()).as_ref().to_vec()
    }

    /// Derives a value for a login at an identity provider, such as its nonce. Different purposes have different values.
    pub fn provider_login_value(&self, purpose: &str, text: &str) -> String {
        hex(hmac::sign(&self.provider_login, format!("{purpose}.{text}").as_bytes()).as_ref())
    }

    pub fn is_provider_login_value(&self, purpose: &str, text: &str, sent: &str) -> bool {
        let wanted = self.provider_login_value(purpose, text);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
    }

    /// Returns the signature of an action link.
    pub fn action_link(&self, text: &str) -> String {
        hex(hmac::sign(&self.action_link, text.as_bytes()).as_ref())
    }

    pub fn is_action_link(&self, text: &str, sent: &str) -> bool {
        let wanted = self.action_link(text);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
    }

    fn sign_browser(&self, account: &str, id: &str) -> String {
        hex(hmac::sign(&self.browser, format!("{id}.{account}").as_bytes()).as_ref())
    }
}

pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_cookie_is_valid_for_one_account_only() {
        let marks = KeyedHashes::new(&KeyBytes::new([7; 32]));
        let cookie = marks.new_browser_cookie("ada@acme.test");
        assert!(marks.verify_browser_cookie("ada@acme.test", &cookie).is_some());
        assert!(marks.verify_browser_cookie("grace@acme.test", &cookie).is_none());
        assert!(marks.verify_browser_cookie("ada@acme.test", "x.y").is_none());
        assert_ne!(cookie, marks.new_browser_cookie("ada@acme.test"));
    }

    #[test]
    fn csrf_token_is_valid_for_one_login_only() {
        let marks = KeyedHashes::new(&KeyBytes::new([7; 32]));
        let token = marks.csrf_token("sgn_a");
        assert!(marks.is_csrf_token("sgn_a", &token));
        assert!(!marks.is_csrf_token("sgn_b", &token));
        assert!(!marks.is_csrf_token("sgn_a", ""));
    }
}
