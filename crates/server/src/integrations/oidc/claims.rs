//! Claims of ID tokens.

use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use openidconnect::core::{CoreGenderClaim, CoreJsonWebKeySet, CoreJwsSigningAlgorithm};
use openidconnect::{
    AdditionalClaims, ClaimsVerificationError, ClientId, IdTokenClaims, IdTokenVerifier, IssuerUrl, Nonce,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CLOCK_SKEW_S;
use super::client::ProviderIdToken;

/// Maximum number of a person's groups that are considered.
const GROUPS_MAX: usize = 1_000;
/// The algorithms that ID tokens may be signed with. With a symmetric algorithm, the public key could serve as the
/// secret.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Claims that OpenID Connect does not define.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ProviderClaims {
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl AdditionalClaims for ProviderClaims {}

impl ProviderClaims {
    /// Returns the groups in a claim. `None` if there is no such claim.
    pub(super) fn groups(&self, claim: &str) -> Option<Vec<String>> {
        let found = self.other.get(claim).or_else(|| {
            let mut path = claim.split('.');
            let first = self.other.get(path.next()?)?;
            path.try_fold(first, |value, part| value.get(part))
        })?;
        let one = |value: &Value| value.as_str().map(str::to_owned);
        Some(match found {
            Value::Array(items) => items.iter().filter_map(one).take(GROUPS_MAX).collect(),
            other => one(other).into_iter().collect(),
        })
    }

    fn not_before(&self) -> Option<Timestamp> {
        self.other.get("nbf")?.as_i64().map(|seconds| Timestamp::from_micros(0).plus_seconds(seconds))
    }
}

/// An account that a provider has vouched for.
#[derive(Debug, Clone)]
pub struct VerifiedAccount {
    pub subject: String,
    pub email: Option<String>,
    pub is_email_verified: Option<bool>,
    pub name: Option<String>,
    /// `None` if no groups claim is configured, or the provider sent none.
    pub groups: Option<Vec<String>>,
    /// When the person last proved their identity to the provider.
    pub authenticated_at: Option<Timestamp>,
    /// `None` if the provider did not issue one with a refreshed token.
    pub id_token: Option<RedactedString>,
    pub refresh_token: Option<RedactedString>,
}

/// What an ID token must match.
pub(super) struct TokenExpectations<'a> {
    pub(super) issuer: &'a IssuerUrl,
    pub(super) client_id: &'a str,
    pub(super) keys: &'a CoreJsonWebKeySet,
    /// `None` for a refreshed token, which has no nonce.
    pub(super) nonce: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// Verifies signature, algorithm, issuer, audience, nonce and times of an ID token.
pub(super) fn verify<'t>(
    token: &'t ProviderIdToken,
    expected: &TokenExpectations<'_>,
) -> Result<&'t IdTokenClaims<ProviderClaims, CoreGenderClaim>, ClaimsVerificationError> {
    let to_chrono =
        |time: Timestamp| chrono::DateTime::from_timestamp_micros(time.as_micros()).unwrap_or_default();
    let earliest = to_chrono(expected.now.plus_seconds(-CLOCK_SKEW_S));
    let latest = to_chrono(expected.now.plus_seconds(CLOCK_SKEW_S));
    let client = ClientId::new(expected.client_id.to_owned());
    let verifier = IdTokenVerifier::new_public_client(client, expected.issuer.clone(), expected.keys.clone())
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || earliest)
        .set_issue_time_verifier_fn(move |issued| match issued <= latest {
            true => Ok(()),
            false => Err("it was issued in the future".to_owned()),
        });
    let check_nonce = |nonce: Option<&Nonce>| match (expected.nonce, nonce) {
        (None, _) => Ok(()),
        (Some(wanted), Some(sent)) if Nonce::new(wanted.to_owned()).secret() == sent.secret() => Ok(()),
        (Some(_), _) => Err("it belongs to another login".to_owned()),
    };
    let claims = token.claims(&verifier, check_nonce)?;
    let not_before = claims.additional_claims().not_before();
    if not_before.is_some_and(|start| start > expected.now.plus_seconds(CLOCK_SKEW_S)) {
        return Err(ClaimsVerificationError::Other("it is not valid yet".to_owned()));
    }
    Ok(claims)
}

/// Describes why an ID token was not accepted, without quoting it.
pub(super) fn describe_error(error: &ClaimsVerificationError) -> String {
    use openidconnect::SignatureVerificationError as Signature;
    let why = match error {
        ClaimsVerificationError::Expired(_) => {
            "the ID token has expired or was issued in the future; check the clocks of this server and the provider"
        }
        ClaimsVerificationError::InvalidAudience(_) => "the ID token is for another client",
        ClaimsVerificationError::InvalidIssuer(_) => "the ID token comes from another issuer",
        ClaimsVerificationError::InvalidNonce(_) => "the ID token belongs to another login",
        ClaimsVerificationError::SignatureVerification(Signature::NoSignature) => {
            "the ID token is not signed"
        }
        ClaimsVerificationError::SignatureVerification(
            Signature::DisallowedAlg(_) | Signature::UnsupportedAlg(_),
        ) => "the ID token is signed with an algorithm that is not allowed",
        ClaimsVerificationError::SignatureVerification(Signature::NoMatchingKey) => {
            "the ID token is signed with an unknown key"
        }
        ClaimsVerificationError::SignatureVerification(_) => "the signature of the ID token is wrong",
        ClaimsVerificationError::Other(_) => {
            "the ID token is not valid yet; check the clocks of this server and the provider"
        }
        _ => "the ID token is not valid",
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_or_path() {
        let claims: ProviderClaims = serde_json::from_value(serde_json::json!({
            "groups": ["a", 7, "b"], "https://acme.test/groups": ["c"], "realm_access": {"roles": ["d"]}, "team": "e",
        }))
        .unwrap();
        let found = |claim| claims.groups(claim);
        assert_eq!(found("groups"), Some(vec!["a".into(), "b".into()]));
        assert_eq!(found("https://acme.test/groups"), Some(vec!["c".into()]));
        assert_eq!(found("realm_access.roles"), Some(vec!["d".into()]));
        assert_eq!(found("team"), Some(vec!["e".into()]));
        assert_eq!(found("missing"), None);
        assert_eq!(found("realm_access.missing"), None);
    }
}
