//! Pipelines and their definitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::event::{Actor, EventKindOrAll};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pipeline {
    #[schema(example = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "Shop API")]
    pub name: String,
    #[schema(example = "shop")]
    pub slug: String,
    pub status: PipelineStatus,
    /// Who stopped it, when and why; null while it is active.
    pub stopped: Option<Stopped>,
    /// The branch whose new heads start deployments.
    pub tracks: Option<String>,
    pub stages: Vec<Stage>,
    /// Names of its ephemeral environments.
    pub environments: Vec<String>,
    /// Who is told of what, as the definition says.
    pub notifications: Vec<PipelineNotification>,
    /// What is not an error and does not work either.
    pub warnings: Vec<PipelineWarning>,
    pub definition_hash: String,
    /// Where its definition comes from; null where it was sent.
    pub repository: Option<PipelineOrigin>,
    /// Since when its definition is gone from the repository: nothing new starts.
    #[schema(format = DateTime)]
    pub retired_at: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl Replay for Pipeline {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineNotification {
    /// The webhook's name.
    #[schema(example = "ops")]
    pub webhook: String,
    /// Null while there is no webhook of this name.
    pub webhook_id: Option<String>,
    #[schema(value_type = Vec<EventKindOrAll>)]
    pub events: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineWarning {
    #[schema(example = "missing_webhook")]
    pub code: String,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PipelineStatus {
    Active,
    Stopped,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    pub by: Actor,
    #[schema(format = DateTime)]
    pub at: String,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineOrigin {
    pub id: String,
    pub url: String,
    #[schema(example = ".berth/shop/pipeline.yaml")]
    pub path: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    pub name: String,
    /// What is in it; null until something has succeeded there.
    pub current: Option<Current>,
    /// Since a rollback nothing new comes in, until the pipeline is resumed; null otherwise.
    pub paused: Option<PromotionPaused>,
}

/// What is in a stage or in an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Current {
    /// The whole hash, where it is known.
    pub commit_id: String,
    pub deployment_id: String,
    /// Since when.
    #[schema(format = DateTime)]
    pub at: String,
    pub by: Actor,
    /// How many commits the tracked branch has that this has not; null where that is not known.
    pub behind_by: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionPaused {
    pub by: Actor,
    #[schema(format = DateTime)]
    pub at: String,
    pub reason: Option<String>,
    /// The rollback that it comes from.
    pub deployment_id: String,
}

/// A definition as text (YAML or JSON), or as a JSON object.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DefinitionText {
    Text(String),
    Object(serde_json::Map<String, serde_json::Value>),
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PipelineNew {
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", example = "shop")]
    pub slug: String,
    /// Defaults to the definition's name.
    #[schema(max_length = 120)]
    pub name: Option<String>,
    pub definition: DefinitionText,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DefinitionNew {
    pub definition: DefinitionText,
}

/// A pipeline's present definition, as it was sent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    pub hash: String,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    pub valid: bool,
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    pub severity: Severity,
    #[schema(example = "unknown_field")]
    pub code: String,
    pub message: String,
    /// A JSON pointer into the definition.
    pub pointer: String,
    pub line: u32,
    pub column: u32,
    pub end_column: u32,
    /// The line itself.
    pub source_line: String,
    /// What to write instead.
    pub suggestion: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// It can, but perhaps it does not do what was meant.
    Warning,
}

/// Why something is done.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Because {
    #[schema(max_length = 4000)]
    pub reason: Option<String>,
}
