//! Secrets without their values, which are never returned.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub struct WireSecret {
    #[schema(example = "sec_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "DEPLOY_TOKEN")]
    pub name: String,
    pub scope: SecretScope,
    pub description: Option<String>,
    /// Version of the value. Increases when the value changes.
    pub version: i64,
    /// Pipelines whose definitions use the secret, at most 100.
    pub used_by: Vec<SecretUser>,
    /// Warnings about the value that was just set.
    pub warnings: Vec<SecretWarning>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireSecret {}

/// Where a secret applies. The most specific one is used: stage, then pipeline, then organization.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretScope {
    #[serde(rename = "type")]
    pub kind: ScopeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pipeline_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stage: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    Organization,
    Pipeline,
    Stage,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretUser {
    pub pipeline_id: String,
    pub slug: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretWarning {
    #[schema(example = "not_maskable")]
    pub code: String,
    pub detail: String,
}

// No `Debug` on types that hold a value.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretNew {
    #[schema(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$", example = "DEPLOY_TOKEN")]
    pub name: String,
    #[schema(min_length = 1, max_length = 65536, format = Password)]
    pub value: String,
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// Defaults to the organization.
    pub scope: Option<ScopeNew>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScopeNew {
    #[serde(rename = "type")]
    pub kind: ScopeKind,
    /// Id or slug of the pipeline. Required for `pipeline` and `stage`.
    pub pipeline_id: Option<String>,
    /// Stage or ephemeral environment of the pipeline. Required for `stage`.
    pub stage: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretPut {
    #[schema(min_length = 1, max_length = 65536, format = Password)]
    pub value: String,
    #[schema(max_length = 4000)]
    pub description: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretPatch {
    #[schema(min_length = 1, max_length = 65536, format = Password)]
    pub value: Option<String>,
    #[schema(max_length = 4000)]
    pub description: Option<String>,
}
