//! Signatures as defined by the Standard Webhooks specification: HMAC-SHA-256 over id, timestamp and body, one
//! signature per valid secret.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_engine::credential::RedactedString;

use crate::error::AppError;

const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

/// Generates a signing secret in the format that receivers configure.
pub(crate) fn new_secret() -> Result<RedactedString, AppError> {
    let mut bytes = [0u8; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| AppError::bug("the system gave no random bytes"))?;
    Ok(RedactedString::new(format!("{PREFIX}{}", STANDARD.encode(bytes))))
}

/// Returns the value of the `webhook-signature` header. Malformed secrets are skipped.
pub(super) fn signatures(secrets: &[RedactedString], id: &str, seconds: i64, body: &str) -> String {
    let signed = format!("{id}.{seconds}.{body}");
    let keys = secrets.iter().filter_map(|secret| {
        let encoded = secret.reveal().strip_prefix(PREFIX)?;
        Some(hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(encoded).ok()?))
    });
    let signatures = keys.map(|key| format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes()))));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_specification_example() {
        // This example is from https://github.com/standard-webhooks/standard-webhooks.
        let secret = RedactedString::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
        let made =
            signatures(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(made, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn signatures_skip_malformed_secrets() {
        let secrets = [new_secret().unwrap(), new_secret().unwrap(), RedactedString::new("not one".into())];
        assert_eq!(signatures(&secrets, "dlv_1", 1, "{}").split(' ').count(), 2);
        assert_ne!(secrets[0].reveal(), secrets[1].reveal());
    }
}
