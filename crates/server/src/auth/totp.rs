//! Time-based one-time passwords (RFC 6238) with the parameters that all authenticator apps support: HMAC-SHA-1, six
//! digits, and a new code every 30 seconds.

use aws_lc_rs::{constant_time, hmac, rand};
use berth_core::time::Timestamp;
use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

use crate::error::AppError;

pub const DIGITS: usize = 6;
const STEP_S: i64 = 30;
/// Number of steps by which the clock of the phone may be behind or ahead.
const SKEW_STEPS: i64 = 1;
/// The length that RFC 4226 recommends.
const SECRET_BYTES: usize = 20;
const ISSUER: &str = "Berth";

pub fn generate_secret() -> Result<Zeroizing<Vec<u8>>, AppError> {
    let mut secret = Zeroizing::new(vec![0; SECRET_BYTES]);
    rand::fill(&mut secret).map_err(|_| AppError::bug("the system gave no random bytes"))?;
    Ok(secret)
}

/// Returns the number of the time step that contains `now`.
pub fn step_at(now: Timestamp) -> i64 {
    now.as_micros() / 1_000_000 / STEP_S
}

/// Returns the code of a time step.
pub fn code_of_step(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let offset = usize::from(bytes[bytes.len() - 1] & 15);
    let chosen =
        bytes[offset..offset + 4].iter().fold(0, |number: u32, byte| (number << 8) | u32::from(*byte));
    let code = (chosen & 0x7fff_ffff) % 10_u32.pow(DIGITS as u32);
    format!("{code:0DIGITS$}")
}

/// Returns the time step that a code belongs to, if the code is valid now.
pub fn find_step(secret: &[u8], code: &str, now: Timestamp) -> Option<i64> {
    let current = step_at(now);
    let is_of_step = |step: &i64| {
        let expected = code_of_step(secret, *step);
        constant_time::verify_slices_are_equal(expected.as_bytes(), code.as_bytes()).is_ok()
    };
    (current - SKEW_STEPS..=current + SKEW_STEPS).find(is_of_step)
}

/// Returns the secret in the form that users type into an authenticator app.
pub fn encode_secret(secret: &[u8]) -> String {
    BASE32_NOPAD.encode(secret)
}

/// Returns the URI that authenticator apps read from a QR code.
pub fn otpauth_uri(secret: &[u8], account: &str) -> String {
    let account: String = url::form_urlencoded::byte_serialize(account.as_bytes()).collect();
    let secret = encode_secret(secret);
    format!(
        "otpauth://totp/{ISSUER}:{account}?secret={secret}&issuer={ISSUER}&algorithm=SHA1&digits={DIGITS}&period={STEP_S}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"12345678901234567890";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn code_matches_test_vectors_of_rfc_6238() {
        // The last six of the eight digits that the RFC lists.
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_of_step(SECRET, step_at(at(seconds))), code, "at {seconds}");
        }
    }

    #[test]
    fn code_is_valid_for_one_step_before_and_after_its_own() {
        let code = code_of_step(SECRET, 1_000);
        for (step, is_valid) in [(998, false), (999, true), (1_000, true), (1_001, true), (1_002, false)] {
            let found = find_step(SECRET, &code, at(step * STEP_S));
            assert_eq!(found, is_valid.then_some(1_000), "at step {step}");
        }
        for wrong in ["", "12345", "1234567", "abcdef"] {
            assert_eq!(find_step(SECRET, wrong, at(30_000)), None);
        }
    }

    #[test]
    fn otpauth_uri_names_account_and_parameters() {
        assert_eq!(
            otpauth_uri(SECRET, "ada+x@acme.test"),
            "otpauth://totp/Berth:ada%2Bx%40acme.test?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Berth&algorithm=SHA1&digits=6&period=30"
        );
    }

    #[test]
    fn generated_secrets_differ() {
        assert_ne!(*generate_secret().unwrap(), *generate_secret().unwrap());
    }
}
