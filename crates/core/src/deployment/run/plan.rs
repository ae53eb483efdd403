//! The plan of a deployment, pinned when it begins and never changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{RepositoryId, SecretId};
use crate::pipeline::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StepId};
use crate::pipeline::model::{Artifact, OnFailure, Requires, Retry, StepType};
use crate::pipeline::seconds::Seconds;
use crate::pipeline::window::Window;
use crate::registry::Pinned;
use crate::step::{Network, OnLost};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The source commit; `None` for a pipeline without a repository.
    pub source: Option<Source>,
    /// The build, if any, then all stages in order, or the one environment.
    pub stages: Vec<PlannedStage>,
    /// Analyze failed steps automatically.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub analyses_failures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub repository: RepositoryId,
    /// The full hash.
    pub commit: String,
    /// The commit time, as recorded in the commit.
    #[serde(default)]
    pub committed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    /// `build` is reserved for the build.
    pub name: String,
    pub kind: StageKind,
    /// The expression contexts known at planning time: `vars`, `stage`, `pipeline` and others.
    pub contexts: BTreeMap<String, Value>,
    /// Without the steps that are skipped in this stage.
    pub steps: Vec<PlannedStep>,
    /// Conditions to meet before the stage starts.
    #[serde(default)]
    pub gates: Vec<Gate>,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The pinned version of each secret.
    pub secrets: BTreeMap<SecretName, PinnedSecret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Build,
    Stage,
    Environment,
}

/// A condition to meet before a stage starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Approval(Requires),
    Open(Window),
    /// From plans of an old version: this many approvals by any members.
    Approvals(u32),
    /// From plans of an old version without times: stays closed.
    Window,
}

impl PlannedStage {
    /// The approval rule of the stage.
    pub fn rule(&self) -> Option<Requires> {
        self.gates.iter().find_map(|gate| match gate {
            Gate::Approval(rule) => Some(rule.clone()),
            Gate::Approvals(count) => {
                let (from, self_approval, timeout) = (Vec::new(), true, None);
                Some(Requires { approvals: *count, from, self_approval, timeout })
            }
            Gate::Open(_) | Gate::Window => None,
        })
    }

    /// Whether authors may be excluded from approving. A value that is not known yet may turn out to be false.
    pub fn may_bar_authors(&self) -> bool {
        let bars = |it: &PlannedStep| {
            it.params.get("self_approval").is_some_and(|value| *value != Value::Bool(true))
        };
        self.rule().is_some_and(|rule| !rule.self_approval)
            || self.steps.iter().any(|step| step.is_approval() && bars(step))
    }

    /// When the window opens, if it is closed now. `Some(None)` if that is unknown.
    pub fn shut_until(&self, now: Timestamp) -> Option<Option<Timestamp>> {
        self.gates.iter().find_map(|gate| match gate {
            Gate::Open(window) => match window.opens_next(now) {
                Some(at) if at <= now => None,
                later => Some(later),
            },
            Gate::Window => Some(None),
            Gate::Approval(_) | Gate::Approvals(_) => None,
        })
    }
}

impl Plan {
    /// Whether any stage or step needs an approval.
    pub fn has_approvals(&self) -> bool {
        let is_rule = |gate: &Gate| matches!(gate, Gate::Approval(_) | Gate::Approvals(_));
        let may_ask = |it: &PlannedStep| it.is_approval() || it.custom.is_some();
        let asks = |it: &PlannedStage| it.gates.iter().any(is_rule) || it.steps.iter().any(may_ask);
        self.stages.iter().any(asks)
    }
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
    /// The pinned step registry of a custom step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<Pinned>,
    /// Positions in the same stage. The needs of a skipped step pass to the steps that need it.
    pub needs: Vec<usize>,
    pub when: When,
    /// As written. Expressions are evaluated once, just before the step starts. Evaluating earlier would let a value
    /// inject expressions of its own.
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
    /// From the step, or the organization's default at planning time.
    #[serde(skip_serializing_if = "Network::is_host", default)]
    pub network: Network,
}

/// When a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    Always,
    /// The condition was false at planning time.
    Never,
    /// Evaluated when everything the step needs has ended.
    If(String),
}
