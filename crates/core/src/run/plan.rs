//! The plan: what a deployment will do, pinned when it begins and never changed after.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{RepositoryId, SecretId};
use crate::pipeline::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StepId};
use crate::pipeline::model::{Artifact, OnFailure, Retry, StepType};
use crate::pipeline::seconds::Seconds;
use crate::step::OnLost;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The commit the sources are taken from; `None` for a pipeline without a repository.
    pub source: Option<Source>,
    /// The build, if there is one, then every stage in order; or the build and the one environment.
    pub stages: Vec<PlannedStage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub repository: RepositoryId,
    /// The whole hash.
    pub commit: String,
    /// When it was committed, as the commit itself says.
    #[serde(default)]
    pub committed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    /// `build` for the build: no stage may have that name.
    pub name: String,
    pub kind: StageKind,
    /// What expressions see of `vars`, `stage`, `pipeline` and the rest that is known now.
    pub contexts: BTreeMap<String, Value>,
    /// Those that are skipped here are not in it.
    pub steps: Vec<PlannedStep>,
    /// What has to be met before anything of it begins.
    #[serde(default)]
    pub gates: Vec<Gate>,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Which version of each secret the stage uses, where it was found.
    pub secrets: BTreeMap<SecretName, PinnedSecret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Build,
    Stage,
    Environment,
}

/// Nothing opens these yet: a stage that asks for them is not begun. Better a deployment that waits than one that nobody
/// approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Approvals(u32),
    Window,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedSecret {
    pub id: SecretId,
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    pub id: StepId,
    pub name: String,
    pub kind: StepType,
    /// Positions in the same stage. A step that is skipped here keeps nobody waiting: what it needed is needed instead.
    pub needs: Vec<usize>,
    pub when: When,
    /// As written: expressions are evaluated once, just before the step, with the stage's contexts, the outputs and the
    /// secrets. Filling them in earlier would let a value bring expressions of its own.
    pub params: Map<String, Value>,
    pub env: BTreeMap<EnvVarName, String>,
    pub secret_files: BTreeMap<EnvVarName, SecretName>,
    pub outputs: Vec<OutputName>,
    pub artifacts: BTreeMap<ArtifactName, Artifact>,
    pub needs_artifacts: Vec<ArtifactName>,
    pub timeout: Option<Seconds>,
    pub retry: Option<Retry>,
    pub on_lost: OnLost,
    pub runs_on: Vec<Label>,
}

/// Whether a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    Always,
    /// Its condition was false already at planning.
    Never,
    /// Decided when everything it needs has ended.
    If(String),
}
