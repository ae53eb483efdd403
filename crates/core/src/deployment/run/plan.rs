//! The plan of a deployment: fixed when the deployment begins, and never changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{RepositoryId, SecretId};
use crate::pipeline::checkout::CheckoutScope;
use crate::pipeline::container::{ContainerOptions, StepServices, container_labels, kubernetes_labels};
use crate::pipeline::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StepId};
use crate::pipeline::model::{ApprovalPolicy, Artifact, IdTokenRequest, OnFailure, RetryPolicy, StepType};
use crate::pipeline::seconds::DurationSeconds;
use crate::pipeline::secrets::{KUBECONFIG, kubeconfig, registry_credential};
use crate::pipeline::window::DeploymentWindow;
use crate::registry::PinnedStep;
use crate::step::{BuiltinStepType, NetworkAccess, OnLost};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The source commit; `None` for a pipeline without a repository.
    pub source: Option<SourceCommit>,
    /// The build, if any, followed by all stages in order or by the single environment.
    pub stages: Vec<StagePlan>,
    /// Whether failed steps are analyzed automatically.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub analyses_failures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCommit {
    pub repository: RepositoryId,
    /// The full commit hash.
    pub commit: String,
    /// The commit time, as recorded in the commit.
    #[serde(default)]
    pub committed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    /// The stage's name; the build is always called `build`.
    pub name: String,
    pub kind: StageType,
    /// Values for expressions that are known at planning time: `vars`, `stage`, `pipeline` and others.
    pub contexts: BTreeMap<String, Value>,
    /// The steps that the definition does not skip in this stage.
    pub steps: Vec<StepPlan>,
    /// Conditions that must be met before the stage starts.
    #[serde(default)]
    pub gates: Vec<StageGate>,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The version of each secret that the steps will use.
    pub secrets: BTreeMap<SecretName, PinnedSecret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageType {
    Build,
    Stage,
    Environment,
}

/// A condition that must be met before a stage starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageGate {
    Approval(ApprovalPolicy),
    Open(DeploymentWindow),
    /// Only in plans stored by an old version: this number of approvals, by any members.
    Approvals(u32),
    /// Only in plans stored by an old version, which did not store the window's times. Always closed.
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

    /// Whether an approval in this stage may exclude the authors of the change. An expression counts as "may exclude",
    /// because its value is not known yet.
    pub fn may_bar_authors(&self) -> bool {
        let bars =
            |it: &StepPlan| it.params.get("self_approval").is_some_and(|value| *value != Value::Bool(true));
        self.approval_policy().is_some_and(|rule| !rule.self_approval)
            || self.steps.iter().any(|step| step.is_approval() && bars(step))
    }

    /// `None` if the window is open. Otherwise the time when it opens next, or `Some(None)` if that is unknown or it
    /// never opens again.
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
    /// Whether any stage or step needs an approval, or is a custom step, which may request one.
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
    /// For a custom step: the version in its registry, fixed at planning time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<PinnedStep>,
    /// The steps that must pass first, as positions in the same stage. If a needed step is not in this stage, the steps
    /// that it needs take its place.
    pub needs: Vec<usize>,
    pub when: StepActivation,
    /// The params as written in the definition. Expressions are evaluated once, just before the step starts; evaluating
    /// them twice would let a value inject an expression.
    pub params: Map<String, Value>,
    pub env: BTreeMap<EnvVarName, String>,
    pub secret_files: BTreeMap<EnvVarName, SecretName>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id_token: Option<IdTokenRequest>,
    pub outputs: Vec<OutputName>,
    pub artifacts: BTreeMap<ArtifactName, Artifact>,
    pub needs_artifacts: Vec<ArtifactName>,
    pub timeout: Option<DurationSeconds>,
    pub retry: Option<RetryPolicy>,
    pub on_lost: OnLost,
    pub runs_on: Vec<Label>,
    /// Set by the step, or else the organization's default at planning time.
    #[serde(skip_serializing_if = "NetworkAccess::is_host", default)]
    pub network: NetworkAccess,
    #[serde(skip_serializing_if = "CheckoutScope::is_all", default)]
    pub checkout: CheckoutScope,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<ContainerOptions>,
    #[serde(skip_serializing_if = "StepServices::is_empty", default)]
    pub services: StepServices,
}

impl StepPlan {
    /// The texts that may contain expressions.
    pub fn templates(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = self.env.values().map(String::as_str).collect();
        texts.extend(self.params.values().flat_map(texts_in));
        texts.extend(self.container.iter().map(|it| it.image.as_str()));
        for service in self.services.values() {
            texts.push(&service.image);
            texts.extend(service.env.values().map(String::as_str));
        }
        texts
    }

    /// Adds the labels of runners with a container engine or with Kubernetes credentials, if the step needs one.
    pub fn require_container_runner(&mut self) {
        let builds_image = self.kind == StepType::Builtin(BuiltinStepType::ImageBuild);
        let applies_manifests = self.kind == StepType::Builtin(BuiltinStepType::KubernetesApply);
        let labels = if self.container.is_some() || builds_image {
            let uses_host_network = !builds_image && self.network == NetworkAccess::Host;
            container_labels(uses_host_network)
        } else if applies_manifests && !self.params.contains_key(KUBECONFIG) {
            kubernetes_labels()
        } else {
            Vec::new()
        };
        for label in labels {
            if !self.runs_on.contains(&label) {
                self.runs_on.push(label);
            }
        }
    }

    /// The secret with the credentials of a cluster.
    pub fn kubeconfig(&self) -> Option<SecretName> {
        kubeconfig(&self.kind, &self.params)
    }

    /// The secret that registries ask for.
    pub fn registry_credential(&self) -> Option<SecretName> {
        registry_credential(&self.kind, &self.params, self.container.as_ref())
    }
}

/// All strings in a value. The recursion is bounded because the depth of the YAML is limited.
fn texts_in(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts_in).collect(),
        Value::Object(members) => members.values().flat_map(texts_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// When a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepActivation {
    Always,
    /// Its condition was already false at planning time.
    Never,
    /// A condition that is evaluated once all steps that this step needs have ended.
    If(String),
}
