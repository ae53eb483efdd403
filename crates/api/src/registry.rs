//! Step registries, the source of custom steps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::log::LogEntry;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistry {
    #[schema(example = "reg_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Prefix of its steps in definitions: `<name>/<step>`.
    #[schema(example = "tools")]
    pub name: String,
    #[schema(example = "https://git.acme.test/steps.git")]
    pub url: String,
    /// Branch, tag or commit; null for the default branch.
    #[schema(example = "v2")]
    pub r#ref: Option<String>,
    /// Name of the organization secret used to authenticate.
    pub credential: Option<String>,
    pub status: StepRegistryStatus,
    /// Commit that the ref pointed to at the last sync.
    pub commit: Option<String>,
    /// Version used by definitions that do not pin one. Kept if a newer commit cannot be built.
    pub last_good: Option<StepRegistryVersion>,
    /// Why the registry could not be fetched or built.
    pub error: Option<String>,
    /// When it was last fetched successfully.
    #[schema(format = DateTime)]
    pub last_synced_at: Option<String>,
    /// Steps of `lastGood`.
    pub steps: Vec<StepRegistryStepName>,
    /// Pipelines whose definitions use one of its steps.
    pub used_by: Vec<StepUser>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for StepRegistry {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepRegistryStatus {
    /// Not synced since it was created or changed.
    Pending,
    Building,
    /// The commit that the ref points to was built.
    Ready,
    /// The commit that the ref points to could not be built; `lastGood` stays usable.
    Failed,
}

/// A commit that was built. Immutable.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryVersion {
    pub commit: String,
    /// Branches and tags that definitions can use to pin it.
    pub refs: Vec<String>,
    /// Digest of the build output.
    #[schema(example = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae")]
    pub digest: String,
    /// Number of the build that produced it.
    pub build: i64,
    #[schema(format = DateTime)]
    pub built_at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryStepName {
    #[schema(example = "deploy")]
    pub key: String,
    /// The step's type as declared by the registry.
    #[schema(example = "CUSTOM:DEPLOY")]
    pub r#type: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepUser {
    pub id: String,
    #[schema(example = "shop")]
    pub slug: String,
}

/// A custom step as described by its registry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryStep {
    #[schema(example = "deploy")]
    pub key: String,
    /// The step's type as declared by the registry.
    #[schema(example = "CUSTOM:DEPLOY")]
    pub r#type: String,
    /// Value for `type` in a definition.
    #[schema(example = "tools/deploy")]
    pub r#use: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub yaml_example: Option<String>,
    /// JSON Schema of its params, as declared by the registry.
    #[schema(value_type = Object)]
    pub params_schema: serde_json::Value,
    /// Pipelines whose definitions use it.
    pub used_by: Vec<StepUser>,
}

/// One build of a commit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryBuild {
    /// Build number, starting at 1.
    pub number: i64,
    pub status: StepRegistryBuildStatus,
    pub commit: String,
    #[schema(format = DateTime)]
    pub started_at: String,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepRegistryBuildStatus {
    Building,
    Succeeded,
    Failed,
    /// The server stopped during the build; it is built again.
    Interrupted,
}

/// Build log, or a part of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryBuildLog {
    pub number: i64,
    /// Whether the log is complete; no more lines will be added.
    pub complete: bool,
    /// Length of the whole log.
    pub bytes: u64,
    /// Number of lines of the whole log.
    pub lines: u64,
    pub entries: Vec<LogEntry>,
    /// Next line to request with `fromLine`. Absent if there are no more lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_line: Option<u64>,
}

impl ReplayableBody for StepRegistryBuildLog {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StepRegistryNew {
    /// Prefix of its steps in definitions: `<name>/<step>`. Cannot be changed.
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,62}$", example = "tools")]
    pub name: String,
    /// `https://host/path`, `ssh://git@host/path`, `git@host:path`, or an absolute path if the server allows it.
    #[schema(max_length = 1024, example = "https://git.acme.test/steps.git")]
    pub url: String,
    /// Branch, tag or commit. Defaults to the default branch.
    #[schema(max_length = 255)]
    pub r#ref: Option<String>,
    /// Name of an organization secret that holds a token, `user:password`, or an SSH private key.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StepRegistryPatch {
    /// Branch, tag or commit; an empty string resets it to the default branch.
    #[schema(max_length = 255)]
    pub r#ref: Option<String>,
    /// Name of an organization secret; an empty string removes it.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
}
