//! The documents with which other services verify ID tokens: OpenID Connect discovery and the key set.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use berth_api::problem::Code;
use berth_engine::id_tokens::{ALGORITHM, published_keys};
use http::header;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::AppError;

/// Shorter than the time for which a new key is published before it signs.
const CACHED: &str = "public, max-age=3600";
const KEYS_PATH: &str = "/.well-known/jwks.json";
const CLAIMS: &[&str] = &[
    "iss",
    "aud",
    "sub",
    "iat",
    "nbf",
    "exp",
    "jti",
    "organization",
    "organization_id",
    "pipeline",
    "pipeline_id",
    "deployment",
    "step",
    "commit",
    "ref",
    "session",
    "fence",
];

/// Metadata of the issuer, as OpenID Connect Discovery names it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IssuerMetadata {
    #[schema(example = "https://berth.acme.test")]
    issuer: String,
    #[schema(example = "https://berth.acme.test/.well-known/jwks.json")]
    jwks_uri: String,
    response_types_supported: &'static [&'static str],
    subject_types_supported: &'static [&'static str],
    id_token_signing_alg_values_supported: &'static [&'static str],
    scopes_supported: &'static [&'static str],
    claims_supported: &'static [&'static str],
}

/// Get the OpenID Connect metadata of the issuer of ID tokens. Not found if the server has no `public_url`.
#[utoipa::path(get, operation_id = "getOpenidConfiguration", path = "/.well-known/openid-configuration", tag = "server",
    responses((status = 200, body = IssuerMetadata)))]
pub(crate) async fn openid_configuration(State(app): State<Arc<App>>) -> Result<Response, AppError> {
    let issuer = find_issuer(&app)?;
    let metadata = IssuerMetadata {
        jwks_uri: format!("{issuer}{KEYS_PATH}"),
        issuer,
        response_types_supported: &["id_token"],
        subject_types_supported: &["public"],
        id_token_signing_alg_values_supported: &[ALGORITHM],
        scopes_supported: &["openid"],
        claims_supported: CLAIMS,
    };
    Ok(([(header::CACHE_CONTROL, CACHED)], Json(metadata)).into_response())
}

/// Get the public keys that verify ID tokens, as a JSON Web Key Set.
#[utoipa::path(get, operation_id = "getJwks", path = "/.well-known/jwks.json", tag = "server",
    responses((status = 200, description = "The key set", body = Object)))]
pub(crate) async fn jwks(State(app): State<Arc<App>>) -> Result<Response, AppError> {
    find_issuer(&app)?;
    let keys = published_keys(&app.services).await?;
    Ok(([(header::CACHE_CONTROL, CACHED)], Json(keys)).into_response())
}

fn find_issuer(app: &App) -> Result<String, AppError> {
    let issuer = app.services.config.public_url.clone();
    issuer.ok_or_else(|| {
        AppError::new(Code::NotFound, "this server issues no ID tokens because it has no public_url")
    })
}
