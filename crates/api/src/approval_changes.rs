//! What approving would change.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commit::WireCommit;

/// The difference between what is deployed in the stage or environment of an approval, and what would be deployed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalChanges {
    /// The commit that is deployed there; null if there is none.
    pub from: Option<WireCommit>,
    /// The commit to approve; null for pipelines without a repository.
    pub to: Option<WireCommit>,
    /// The commits that would be added, newest first, at most 50. If nothing is deployed, the most recent ones. Null if
    /// the commits cannot be compared now: one of them is not in the server's copy of the repository, or reading them
    /// takes too long.
    pub commits: Option<Vec<WireCommit>>,
    /// Total number of commits that would be added; null if unknown.
    pub commit_count: Option<u64>,
    /// The files that differ, by path, at most 100. Null if nothing is deployed, they cannot be compared now, or you may
    /// not read the whole pipeline.
    pub files: Option<Vec<FileChangeCount>>,
    /// Total number of files that differ; null if unknown.
    pub file_count: Option<usize>,
    /// URL of the forge's comparison; null if nothing is deployed, it is the same commit, or the forge is unknown.
    pub compare_url: Option<String>,
    /// Changed lines of the pipeline's definition; null if it is unchanged, nothing is deployed, or you may not read the
    /// whole pipeline.
    pub definition: Option<ChangedLines>,
    /// The secrets of the stage whose pinned versions differ, by name. Null without permission to read secrets of the
    /// pipeline.
    pub secrets: Option<Vec<SecretVersionChange>>,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeCount {
    #[schema(example = "src/payment.rs")]
    pub path: String,
    /// Added lines; null for a binary file, and if the content is not in the server's copy of the repository.
    pub added: Option<u64>,
    /// Removed lines; null like `added`.
    pub removed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedLines {
    pub added: usize,
    pub removed: usize,
}

/// A secret whose pinned version differs. Its value is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVersionChange {
    #[schema(example = "DEPLOY_KEY")]
    pub name: String,
    pub change: SecretChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretChangeKind {
    Added,
    Updated,
    Removed,
}
