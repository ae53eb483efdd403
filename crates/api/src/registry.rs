//! Step registries: where custom steps come from.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::log::LogEntry;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistry {
    #[schema(example = "reg_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// What stands before the slash in a definition.
    #[schema(example = "tools")]
    pub name: String,
    #[schema(example = "https://git.acme.test/steps.git")]
    pub url: String,
    /// A branch, a tag or a commit; null for the default branch.
    #[schema(example = "v2")]
    pub r#ref: Option<String>,
    /// Name of the organization's secret it is read with.
    pub credential: Option<String>,
    pub status: StepRegistryStatus,
    /// What the ref pointed at when it was last seen.
    pub commit: Option<String>,
    /// What definitions get that name no version. It stays when a newer commit cannot be built.
    pub last_good: Option<StepRegistryVersion>,
    /// Why it could not be read or built.
    pub error: Option<String>,
    /// When it could last be read.
    #[schema(format = DateTime)]
    pub last_synced_at: Option<String>,
    /// Of the last good version.
    pub steps: Vec<StepRegistryStepName>,
    /// Pipelines whose definitions name a step of it.
    pub used_by: Vec<StepUser>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl Replay for StepRegistry {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepRegistryStatus {
    /// Nobody has looked since it was made or changed.
    Pending,
    Building,
    /// What its ref points at can be used.
    Ready,
    /// What its ref points at cannot be used; `lastGood` still can.
    Failed,
}

/// A commit that was built. It never changes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryVersion {
    pub commit: String,
    /// Branches and tags by which definitions may name it.
    pub refs: Vec<String>,
    /// Of what was built.
    #[schema(example = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae")]
    pub digest: String,
    /// Number of the build it came from.
    pub build: i64,
    #[schema(format = DateTime)]
    pub built_at: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryStepName {
    #[schema(example = "deploy")]
    pub key: String,
    /// The registry's own type.
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

/// A custom step, with all its registry says about it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryStep {
    #[schema(example = "deploy")]
    pub key: String,
    /// The registry's own type.
    #[schema(example = "CUSTOM:DEPLOY")]
    pub r#type: String,
    /// What to write as `type` in a definition.
    #[schema(example = "tools/deploy")]
    pub r#use: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub yaml_example: Option<String>,
    /// JSON Schema of its params, as the registry gave it.
    #[schema(value_type = Object)]
    pub params_schema: serde_json::Value,
    /// Pipelines whose definitions name it.
    pub used_by: Vec<StepUser>,
}

/// One try to build a commit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryBuild {
    /// From 1.
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
    /// The server stopped meanwhile; another build follows.
    Interrupted,
}

/// What a build printed, or a part of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRegistryBuildLog {
    pub number: i64,
    /// Nothing will be added any more.
    pub complete: bool,
    /// The length of the whole log.
    pub bytes: u64,
    /// Lines of the whole log.
    pub lines: u64,
    pub entries: Vec<LogEntry>,
    /// There are more lines: the first of them, for `fromLine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_line: Option<u64>,
}

impl Replay for StepRegistryBuildLog {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StepRegistryNew {
    /// What stands before the slash in definitions. It cannot be changed.
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,62}$", example = "tools")]
    pub name: String,
    /// `https://host/path`, `ssh://git@host/path`, `git@host:path`, or an absolute path where the server allows it.
    #[schema(max_length = 1024, example = "https://git.acme.test/steps.git")]
    pub url: String,
    /// A branch, a tag or a commit; the default branch where it is absent.
    #[schema(max_length = 255)]
    pub r#ref: Option<String>,
    /// Name of a secret of the organization: a token, `user:password`, or a private key for ssh.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StepRegistryPatch {
    /// A branch, a tag or a commit; an empty text means the default branch.
    #[schema(max_length = 255)]
    pub r#ref: Option<String>,
    /// Name of a secret of the organization; an empty text takes it away.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
}
