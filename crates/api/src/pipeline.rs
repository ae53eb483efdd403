//! Pipelines and their definitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::commit::WireCommit;
use crate::event::{EventKindOrAll, WireActor};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pipeline)]
pub struct WirePipeline {
    #[schema(example = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "Shop API")]
    pub name: String,
    #[schema(example = "shop")]
    pub slug: String,
    pub status: PipelineStatus,
    /// Who stopped it, when and why; null while it is active.
    pub stopped: Option<PipelineStop>,
    /// Branch whose new commits start deployments.
    pub tracks: Option<String>,
    pub stages: Vec<PipelineStage>,
    /// Names of its ephemeral environments.
    pub environments: Vec<String>,
    /// Webhook notifications from the definition.
    pub notifications: Vec<PipelineNotification>,
    /// Problems in the definition that do not prevent its use.
    pub warnings: Vec<PipelineWarning>,
    pub definition_hash: String,
    /// Repository and path of the definition; null if it was uploaded.
    pub repository: Option<PipelineOrigin>,
    /// When the definition was removed from the repository. No new deployments start.
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

impl ReplayableBody for WirePipeline {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineNotification {
    /// The webhook's name.
    #[schema(example = "ops")]
    pub webhook: String,
    /// Null if there is no webhook with this name.
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
#[schema(as = Stopped)]
pub struct PipelineStop {
    pub by: WireActor,
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
#[schema(as = Stage)]
pub struct PipelineStage {
    pub name: String,
    /// What is currently deployed; null until a deployment has succeeded.
    pub current: Option<CurrentCommit>,
    /// The newest deployment in the stage, if it failed there; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failed: Option<FailedDeployment>,
    /// Set if promotion into the stage is paused after a rollback. Resume the pipeline to clear it.
    pub paused: Option<PromotionPaused>,
}

/// What is currently deployed in a stage or environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Current)]
pub struct CurrentCommit {
    /// Full commit hash, if known.
    pub commit_id: String,
    /// The commit; null if it was not resolved.
    pub commit: Option<WireCommit>,
    pub deployment_id: String,
    /// When it was deployed.
    #[schema(format = DateTime)]
    pub at: String,
    pub by: WireActor,
    /// Number of commits behind the tracked branch; null if unknown.
    pub behind_by: Option<u64>,
}

/// A failed deployment that no later one has replaced.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedDeployment {
    pub deployment_id: String,
    /// Number of the deployment in its pipeline or environment.
    pub number: i64,
    /// Full commit hash if it is known, otherwise the commit as requested.
    pub commit_id: String,
    /// The commit; null if it was not resolved.
    pub commit: Option<WireCommit>,
    /// When it failed.
    #[schema(format = DateTime)]
    pub at: String,
    pub by: WireActor,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionPaused {
    pub by: WireActor,
    #[schema(format = DateTime)]
    pub at: String,
    pub reason: Option<String>,
    /// The rollback that paused promotion.
    pub deployment_id: String,
}

/// Pipeline definition as text (YAML or JSON) or as a JSON object.
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
    /// Defaults to the name in the definition.
    #[schema(max_length = 120)]
    pub name: Option<String>,
    pub definition: DefinitionText,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DefinitionNew {
    pub definition: DefinitionText,
}

/// Current definition of a pipeline, as it was uploaded or read from the repository.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    pub hash: String,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Validation)]
pub struct DefinitionValidation {
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
    /// JSON pointer into the definition.
    pub pointer: String,
    pub line: u32,
    pub column: u32,
    pub end_column: u32,
    /// Text of the line.
    pub source_line: String,
    /// Suggested replacement.
    pub suggestion: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// The definition is valid, but may not do what was intended.
    Warning,
}

/// Optional reason, recorded in the audit log.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Because)]
pub struct ReasonBody {
    #[schema(max_length = 4000)]
    pub reason: Option<String>,
}
