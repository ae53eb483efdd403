//! What is where.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::environment::Holder;
use crate::pipeline::{Current, Stage};

/// What the stages and environments of a pipeline have.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    #[schema(example = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub pipeline_id: String,
    #[schema(example = "shop")]
    pub slug: String,
    pub name: String,
    /// The head of the tracked branch, as last seen; null without a repository.
    pub head: Option<String>,
    /// In order.
    pub stages: Vec<Stage>,
    pub environments: Vec<DeployedEnvironment>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedEnvironment {
    pub environment_id: String,
    #[schema(example = "qa-1")]
    pub env_name: String,
    /// What is in it; null until something has succeeded there.
    pub current: Option<Current>,
    /// Who holds it; null while nobody does.
    pub holder: Option<Holder>,
    #[schema(format = DateTime)]
    pub held_since: Option<String>,
    /// When the hold ends by itself; null: not.
    #[schema(format = DateTime)]
    pub held_until: Option<String>,
    /// What the holder said it is for.
    pub context: Option<String>,
    /// How many wait in line.
    pub queue_length: usize,
    /// What is being deployed in it, or is about to be; null while nothing is.
    pub deploying: Option<String>,
}
