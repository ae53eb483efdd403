//! The JSON Web Token with which an app proves its identity to its forge.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_core::time::Timestamp;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use crate::credential::RedactedString;

/// How long a token is valid, in seconds. GitHub accepts at most 10 minutes.
const TOKEN_S: i64 = 5 * 60;
/// How far the clock of the forge may be behind, in seconds.
const CLOCK_SKEW_S: i64 = 60;
const MICROS_PER_S: i64 = 1_000_000;

/// Whether a text is an RSA private key in PEM format.
pub fn is_app_key(pem: &RedactedString) -> bool {
    read_key(pem).is_some()
}

/// Signs a token for the app with this id on the forge. `None` if the key cannot be used.
pub(super) fn sign(pem: &RedactedString, app: &str, now: Timestamp) -> Option<RedactedString> {
    let key = read_key(pem)?;
    let issued_at = now.as_micros() / MICROS_PER_S;
    let header = json!({"alg": "RS256", "typ": "JWT"});
    let claims = json!({"iss": app, "iat": issued_at - CLOCK_SKEW_S, "exp": issued_at + TOKEN_S});
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).ok()?;
    Some(RedactedString::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

/// Reads a key in the formats PKCS #1, which GitHub uses, and PKCS #8.
fn read_key(pem: &RedactedString) -> Option<KeyPair> {
    match PrivateKeyDer::from_pem_slice(pem.reveal().as_bytes()).ok()? {
        PrivateKeyDer::Pkcs1(der) => KeyPair::from_der(der.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(der) => KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
        _ => None,
    }
}
