//! The plan of a deployment, pinned when it begins and never changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{RepositoryId, SecretId};
use crate::pipeline::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StepId};
use crate::pipeline::model::{ApprovalPolicy, Artifact, OnFailure, RetryPolicy, StepType};
use crate::pipeline::seconds::DurationSeconds;
use crate::pipeline::window::DeploymentWindow;
use crate::registry::PinnedStep;
use crate::step::{NetworkAccess, OnLost};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The source commit; `None` for a pipeline without a repository.
    pub source: Option<SourceCommit>,
    /// The build, if any, then all stages in order, or the one environment.
    pub stages: Vec<StagePlan>,
    /// Analyze failed steps automatically.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub analyses_failures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCommit {
    pub repository: RepositoryId,
    /// The full hash.
    pub commit: String,
    /// The commit time, as recorded in the commit.
    #[serde(default)]
    pub committed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    /// `build` is reserved for the build.
    pub name: String,
    pub kind: StageType,
    /// The expression contexts known at planning time: `vars`, `stage`, `pipeline` and others.
    pub contexts: BTreeMap<String, Value>,
    /// Without the steps that are skipped in this stage.
    pub steps: Vec<StepPlan>,
    /// Conditions to meet before the stage starts.
    #[serde(default)]
    pub gates: Vec<StageGate>,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The pinned version of each secret.
    pub secrets: BTreeMap<SecretName, PinnedSecret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageType {
    Build,
    Stage,
    Environment,
}

/// A condition to meet before a stage starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageGate {
    Approval(ApprovalPolicy),
    Open(DeploymentWindow),
    /// From plans of an old version: this many approvals by any members.
    Approvals(u32),
    /// From plans of an old version without times: stays closed.
    Window,
}

impl StagePlan {
    /// The approval rule of the stage.
    pub fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.gates.iter().find_map(|gate| match gate {
            StageGate::Approval(rule) => Some(rule.clone()),
            StageGate::Approvals(count) => {
                let (from, self_approval, timeout) = (Vec::new(), true, None);
                Some(ApprovalPolicy { approvals: *count, from, self_approval, timeout })
            }
            StageGate::Open(_) | StageGate::Window => None,
        })
    }

    /// Whether authors may be excluded from approving. A value that is not known yet may turn out to be false.
    pub fn may_bar_authors(&self) -> bool {
        let bars =
            |it: &StepPlan| it.params.get("self_approval").is_some_and(|value| *value != Value::Bool(true));
        self.approval_policy().is_some_and(|rule| !rule.self_approval)
            || self.steps.iter().any(|step| step.is_approval() && bars(step))
    }

    /// When the window opens, if it is closed now. `Some(None)` if that is unknown.
    pub fn closed_until(&self, now: Timestamp) -> Option<Option<Timestamp>> {
        self.gates.iter().find_map(|gate| match gate {
            StageGate::Open(window) => match window.opens_next(now) {
                Some(at) if at <= now => None,
                later => Some(later),
            },
            StageGate::Window => Some(None),
            StageGate::Approval(_) | StageGate::Approvals(_) => None,
        })
    }
}

impl Plan {
    /// Whether any stage or step needs an approval.
    pub fn has_approvals(&self) -> bool {
        let is_rule = |gate: &StageGate| matches!(gate, StageGate::Approval(_) | StageGate::Approvals(_));
        let may_ask = |it: &StepPlan| it.is_approval() || it.custom.is_some();
        let asks = |it: &StagePlan| it.gates.iter().any(is_rule) || it.steps.iter().any(may_ask);
        self.stages.iter().any(asks)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedSecret {
    pub id: SecretId,
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepPlan {
    pub id: StepId,
    pub name: String,
    pub kind: StepType,
    /// The pinned step registry of a custom step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<PinnedStep>,
    /// Positions in the same stage. The needs of a skipped step pass to the steps that need it.
    pub needs: Vec<usize>,
    pub when: StepActivation,
    /// As written. Expressions are evaluated once, just before the step starts. Evaluating earlier would let a value
    /// inject expressions of its own.
    pub params: Map<String, Value>,
    pub env: BTreeMap<EnvVarName, String>,
    pub secret_files: BTreeMap<EnvVarName, SecretName>,
    pub outputs: Vec<OutputName>,
    pub artifacts: BTreeMap<ArtifactName, Artifact>,
    pub needs_artifacts: Vec<ArtifactName>,
    pub timeout: Option<DurationSeconds>,
    pub retry: Option<RetryPolicy>,
    pub on_lost: OnLost,
    pub runs_on: Vec<Label>,
    /// From the step, or the organization's default at planning time.
    #[serde(skip_serializing_if = "NetworkAccess::is_host", default)]
    pub network: NetworkAccess,
}

/// When a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepActivation {
    Always,
    /// The condition was false at planning time.
    Never,
    /// Evaluated when everything the step needs has ended.
    If(String),
}
