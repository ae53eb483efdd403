//! ID tokens: signed JSON Web Tokens with which a step proves its identity to other services. The server is their
//! OpenID Connect issuer.

mod claims;
mod keys;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::runner::{AttemptAssignment, SecretText};
use berth_core::time::Timestamp;
use serde_json::{Value, json};

pub(crate) use claims::{StepClaims, grant_claims};
pub use keys::{published_keys, rotate_signing_keys};

use crate::credential::random_base62;
use crate::error::EngineError;
use crate::grant::GrantedAttempt;
use crate::services::Services;

/// Lifetime of a token in seconds.
pub const TOKEN_S: i64 = 10 * 60;
/// How far the clock of a service may be behind, in seconds.
const CLOCK_SKEW_S: i64 = 30;
/// Number of random characters in a token's id.
const TOKEN_ID_CHARS: usize = 16;
const MICROS_PER_S: i64 = 1_000_000;

/// Signature algorithm of tokens. AWS, Google Cloud, Azure and Vault all accept it.
pub const ALGORITHM: &str = "RS256";

/// Why a step gets no token.
pub(crate) enum IdTokenError {
    /// The text is shown to users.
    Refused(String),
    Engine(EngineError),
}

/// Adds the token that the step asks for to its assignment: as a file, and as a value to mask.
pub(crate) fn add_token(
    services: &Services,
    granted: &GrantedAttempt,
    assignment: &mut AttemptAssignment,
) -> Result<(), IdTokenError> {
    let claims = match &granted.id_token {
        None => return Ok(()),
        Some(Err(why)) => return Err(IdTokenError::Refused(why.clone())),
        Some(Ok(claims)) => claims,
    };
    let issuer = services.config.public_url.as_deref().ok_or_else(|| {
        let why = "the step asks for an ID token, but this server has no public URL; set `public_url`";
        IdTokenError::Refused(why.to_owned())
    })?;
    let token = sign(services, issuer, claims).map_err(IdTokenError::Engine)?;
    // The signature is what makes the token valid, so it is masked even if a step prints the parts separately.
    let signature = token.rsplit('.').next().unwrap_or_default().to_owned();
    assignment.masked.extend([SecretText::new(token.clone()), SecretText::new(signature)]);
    assignment.secret_files.insert(claims.file.to_string(), SecretText::new(token));
    Ok(())
}

fn sign(services: &Services, issuer: &str, claims: &StepClaims) -> Result<String, EngineError> {
    let (key, now) = keys::load_signing_key(services)?;
    let header = json!({"alg": ALGORITHM, "typ": "JWT", "kid": key.id});
    let payload = payload(issuer, claims, now);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&payload));
    let mut signature = vec![0; key.pair.public_modulus_len()];
    let made = key.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature);
    made.map_err(|_| EngineError::bug("an ID token cannot be signed"))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn payload(issuer: &str, claims: &StepClaims, now: Timestamp) -> Value {
    let issued_at = now.as_micros() / MICROS_PER_S;
    let ends_at = claims.session_ends_at.map(|at| at.as_micros() / MICROS_PER_S);
    let mut payload = claims.custom.clone();
    for (name, value) in [
        ("iss", Value::from(issuer)),
        ("aud", claims.audience.as_str().into()),
        ("sub", claims.subject.as_str().into()),
        ("iat", issued_at.into()),
        ("nbf", (issued_at - CLOCK_SKEW_S).into()),
        ("exp", (issued_at + TOKEN_S).min(ends_at.unwrap_or(i64::MAX)).into()),
        ("jti", format!("{}.{}", claims.attempt, random_base62(TOKEN_ID_CHARS)).into()),
    ] {
        payload.insert(name.to_owned(), value);
    }
    Value::Object(payload)
}
