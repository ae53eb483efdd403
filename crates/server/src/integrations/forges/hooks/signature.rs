//! Signatures of deliveries.

use aws_lc_rs::{constant_time, hmac};
use berth_core::forge::ForgeKind;
use berth_engine::credential::RedactedString;
use berth_engine::vault::hex;
use http::HeaderMap;

use crate::error::AppError;

const SECRET_BYTES: usize = 32;

/// Generates the secret of a webhook.
pub fn new_hook_secret() -> Result<RedactedString, AppError> {
    let mut bytes = [0u8; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| AppError::bug("the system gave no random bytes"))?;
    Ok(RedactedString::new(hex(&bytes)))
}

/// Signs a body: HMAC-SHA-256 in hexadecimal.
pub fn sign_hook_body(secret: &RedactedString, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    hex(hmac::sign(&key, body).as_ref())
}

/// Whether a delivery was sent by a forge that knows the secret. GitLab sends the secret itself; all others send a
/// signature of the body.
pub fn verify_signature(forge: ForgeKind, secret: &RedactedString, headers: &HeaderMap, body: &[u8]) -> bool {
    let signature = |name: &str, prefix: &str| {
        let sent = single_header(headers, name).and_then(|value| value.strip_prefix(prefix));
        sent.is_some_and(|sent| verify_hmac(secret, body, sent))
    };
    match forge {
        ForgeKind::GitHub => signature("x-hub-signature-256", "sha256="),
        ForgeKind::Bitbucket => signature("x-hub-signature", "sha256="),
        // Forgejo sends both headers, Gitea only its own.
        ForgeKind::Gitea => match single_header(headers, "x-gitea-signature") {
            Some(_) => signature("x-gitea-signature", ""),
            None => signature("x-forgejo-signature", ""),
        },
        ForgeKind::GitLab => single_header(headers, "x-gitlab-token").is_some_and(|sent| {
            // Compare hashes, so that the time does not depend on the length either.
            let key = hmac::Key::new(hmac::HMAC_SHA256, b"token");
            let (sent, wanted) =
                (hmac::sign(&key, sent.as_bytes()), hmac::sign(&key, secret.reveal().as_bytes()));
            constant_time::verify_slices_are_equal(sent.as_ref(), wanted.as_ref()).is_ok()
        }),
    }
}

/// Returns the value of a header that occurs once.
pub(crate) fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn verify_hmac(secret: &RedactedString, body: &[u8], sent: &str) -> bool {
    let Some(tag) = decode_hex(sent.as_bytes()) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    hmac::verify(&key, body, &tag).is_ok()
}

pub(crate) fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
