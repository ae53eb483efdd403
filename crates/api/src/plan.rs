//! Plans: what a definition would run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::deployment::StageKind;
use crate::pipeline::DefinitionText;
use crate::runner::Network;

/// Set exactly one of `definition` and `pipelineId`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlanNew {
    pub definition: Option<DefinitionText>,
    /// Id or slug of a pipeline.
    pub pipeline_id: Option<String>,
    /// Ephemeral environment to plan for. Defaults to all stages.
    #[schema(example = "qa-1")]
    pub environment: Option<String>,
    /// Value of `trigger.commit`. Defaults to a placeholder.
    #[schema(example = "9fceb02")]
    pub commit_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Plan)]
pub struct WirePlan {
    /// The build, if there is one, followed by the stages in order, or by the environment.
    pub stages: Vec<PlannedStage>,
    /// Features that this version of Berth cannot run yet. A deployment would fail before its first step.
    pub obstacles: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStage {
    #[schema(example = "staging")]
    pub name: String,
    pub kind: StageKind,
    /// Steps, without those that are skipped here.
    pub steps: Vec<PlannedStep>,
}

/// A planned step with its known values filled in. `[SECRET:NAME]` stands for a secret, `[OUTPUT:step/name]` for an
/// output that is known only at run time, `[ID_TOKEN:audience]` for an ID token.
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
    pub runs: PlannedCondition,
    /// Condition that decides whether the step runs, if it cannot be evaluated yet.
    pub condition: Option<String>,
    pub env: BTreeMap<String, String>,
    pub secret_files: BTreeMap<String, String>,
    pub params: Map<String, Value>,
    pub runs_on: Vec<String>,
    /// Network access: the step's own `network`, or the organization's default.
    pub network: Network,
    /// Image of the container that the step runs in; null without a container.
    pub image: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Runs)]
pub enum PlannedCondition {
    Always,
    /// The step's condition is false.
    Never,
    /// Decided when all steps it needs have finished.
    If,
}
