//! Artifacts of deployments.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

/// The artifacts that the steps of a deployment have stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentArtifacts {
    pub artifacts: Vec<DeploymentArtifact>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentArtifact {
    #[schema(example = "site")]
    pub name: String,
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub digest: String,
    #[schema(example = "stp_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub step_id: String,
    /// Size of the compressed archive; null if it was removed by retention.
    pub bytes: Option<u64>,
}

impl ReplayableBody for DeploymentArtifacts {}
