//! The plan: what a deployment will do, pinned when it begins and never changed after.

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
    /// The commit the sources are taken from; `None` for a pipeline without a repository.
    pub source: Option<Source>,
    /// The build, if there is one, then every stage in order; or the build and the one environment.
    pub stages: Vec<PlannedStage>,
    /// Steps that fail are looked into without anybody asking.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub analyses_failures: bool,
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

/// What a stage asks for before it is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Approval(Requires),
    Open(Window),
    /// As a version planned it that could not ask: by so many people, whoever they are.
    Approvals(u32),
    /// As a version planned it that knew no time. Nobody can say when it is open: it stays shut.
    Window,
}

impl PlannedStage {
    /// The rule by which it has to be approved.
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

    /// Whether its authors may be barred from approving it. A value that is not known yet may turn out to be false.
    pub fn may_bar_authors(&self) -> bool {
        let bars = |it: &PlannedStep| {
            it.params.get("self_approval").is_some_and(|value| *value != Value::Bool(true))
        };
        self.rule().is_some_and(|rule| !rule.self_approval)
            || self.steps.iter().any(|step| step.is_approval() && bars(step))
    }

    /// Why it may not be begun now, as far as time decides. `Some(None)`: nobody knows until when.
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
    /// Whether anybody is ever asked.
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
    /// What a custom step is here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<Pinned>,
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
    /// Its own, or that of the organization when it was planned.
    #[serde(skip_serializing_if = "Network::is_host", default)]
    pub network: Network,
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
