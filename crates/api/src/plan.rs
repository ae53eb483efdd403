//! What a definition would do, before it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::pipeline::DefinitionText;
use crate::runner::Network;

/// Exactly one of `definition` and `pipelineId`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlanNew {
    pub definition: Option<DefinitionText>,
    /// A pipeline of the organization, by id or slug.
    pub pipeline_id: Option<String>,
    /// One of its environments; through all stages when left out.
    #[schema(example = "qa-1")]
    pub environment: Option<String>,
    /// What `trigger.commit` is; a marker when left out.
    #[schema(example = "9fceb02")]
    pub commit_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The build, if there is one, then the stages in order or the one environment.
    pub stages: Vec<PlannedStage>,
    /// What this version cannot run yet, in sentences. A deployment of it would fail before it begins.
    pub obstacles: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStage {
    #[schema(example = "staging")]
    pub name: String,
    pub kind: StageKind,
    /// Without those that are skipped here.
    pub steps: Vec<PlannedStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Build,
    Stage,
    Environment,
}

/// Values are filled in as far as they are known. `[SECRET:NAME]` stands for what is never shown, `[OUTPUT:step/name]`
/// for what only the run will tell.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    #[schema(example = "deploy")]
    pub id: String,
    pub name: String,
    #[serde(rename = "type")]
    #[schema(example = "script")]
    pub kind: String,
    /// Ids of the steps in this stage that it waits for.
    pub needs: Vec<String>,
    pub runs: Runs,
    /// What decides whether it runs, when that is not known yet.
    pub condition: Option<String>,
    pub env: BTreeMap<String, String>,
    pub secret_files: BTreeMap<String, String>,
    pub params: Map<String, Value>,
    pub runs_on: Vec<String>,
    /// What it reaches: its own `network`, or the organization's default.
    pub network: Network,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    Always,
    /// Its condition is false here.
    Never,
    /// Decided when everything it needs has ended.
    If,
}
