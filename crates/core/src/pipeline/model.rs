//! A definition that passed every check. Defaults are filled in, so that nobody has to know them a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StageName, StepId, VarName};
use super::seconds::Seconds;
use super::window::Window;
use crate::access::Role;
use crate::name::{DisplayName, Email, EnvName};
use crate::step::{Builtin, Network, OnLost, is_request};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub name: DisplayName,
    /// The branch whose new heads start deployments.
    pub tracks: Option<String>,
    /// Globs: a head starts a deployment only when one of these changed. Empty: always.
    pub paths: Vec<String>,
    /// Runs once per commit and definition.
    pub build: Vec<Step>,
    /// In order. What `stage_defaults` gave is already in each of them.
    pub stages: Vec<Stage>,
    /// Every stage and environment runs these with its own vars and skips.
    pub steps: Vec<Step>,
    pub ephemeral_environments: BTreeMap<EnvName, Environment>,
    pub analysis: Analysis,
    pub notifications: Vec<Notification>,
}

impl Definition {
    /// Types of steps from registries, as written.
    pub fn custom_types(&self) -> BTreeSet<String> {
        let custom = |step: &Step| match &step.kind {
            StepType::Custom(text) => Some(text.clone()),
            StepType::Builtin(_) => None,
        };
        self.build.iter().chain(&self.steps).filter_map(custom).collect()
    }
}

impl Definition {
    /// Steps that ask an address and do not name a network: where they stand, by JSON pointer.
    pub fn requests_by_default(&self) -> Vec<String> {
        let lists = [("build", &self.build), ("steps", &self.steps)];
        let numbered =
            lists.into_iter().flat_map(|(list, steps)| steps.iter().enumerate().map(move |it| (list, it)));
        let open =
            numbered.filter(|(_, (_, step))| step.network.is_none() && is_request(&step.kind, &step.params));
        open.map(|(list, (index, _))| format!("/pipeline/{list}/{index}")).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: StageName,
    pub vars: BTreeMap<VarName, Scalar>,
    pub skip: BTreeSet<StepId>,
    pub requires: Option<Requires>,
    pub window: Option<Window>,
    pub on_failure: OnFailure,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub name: DisplayName,
    pub id: StepId,
    #[serde(rename = "type")]
    pub kind: StepType,
    /// What this step waits for. A step that names none waits for the one before it.
    pub needs: Vec<StepId>,
    pub needs_artifacts: Vec<ArtifactName>,
    /// Values may hold expressions.
    pub env: BTreeMap<EnvVarName, String>,
    /// The variable holds the path of a file with the secret in it.
    pub secret_files: BTreeMap<EnvVarName, SecretName>,
    /// Values may hold expressions, except `run`.
    pub params: Map<String, Value>,
    pub outputs: Vec<OutputName>,
    pub artifacts: BTreeMap<ArtifactName, Artifact>,
    pub timeout: Option<Seconds>,
    pub retry: Option<Retry>,
    pub on_lost: OnLost,
    pub idempotent: bool,
    pub runs_on: Vec<Label>,
    /// As the organization says when it is not said here.
    pub network: Option<Network>,
    #[serde(rename = "if")]
    pub condition: Option<Condition>,
}

/// Written as one word: `script`, `tools/deploy@v2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StepType {
    Builtin(Builtin),
    /// Of a step registry, as written: `tools/deploy@v2`, `CUSTOM:DEPLOY`.
    Custom(String),
}

impl From<String> for StepType {
    fn from(text: String) -> Self {
        match Builtin::by_name(&text) {
            Some(builtin) => StepType::Builtin(builtin),
            None => StepType::Custom(text),
        }
    }
}

impl From<StepType> for String {
    fn from(kind: StepType) -> String {
        match kind {
            StepType::Builtin(builtin) => builtin.as_str().to_owned(),
            StepType::Custom(text) => text,
        }
    }
}

/// The text between `${{` and `}}` of an `if`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Condition(pub String);

/// A directory or file below the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub path: String,
}

/// Failures only: an unknown outcome is the business of `on_lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The first try included.
    pub attempts: u32,
    pub backoff: Seconds,
}

/// A plain value of `vars`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    Bool(bool),
    Number(Number),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requires {
    /// Distinct people.
    pub approvals: u32,
    /// Anybody who may approve when empty.
    pub from: Vec<Approver>,
    pub self_approval: bool,
    pub timeout: Option<Seconds>,
}

impl Requires {
    /// Why nobody can fulfil it, where that is known without the members: a role may have any number of people.
    pub fn too_few(&self) -> Option<String> {
        let mut people = BTreeSet::new();
        for approver in &self.from {
            match approver {
                Approver::Role(_) => return None,
                Approver::Email(email) => drop(people.insert(email.key())),
            }
        }
        let wanted = usize::try_from(self.approvals).unwrap_or(usize::MAX);
        (!people.is_empty() && people.len() < wanted).then(|| {
            let (wanted, named) = (self.approvals, people.len());
            format!("{wanted} approvals are asked for, but `from` names {named}; name more people, or ask for fewer")
        })
    }
}

/// Written as one word: a role has no `@`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Approver {
    /// This role or a higher one.
    Role(Role),
    Email(Email),
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Approver::Role(role) => role.fmt(f),
            Approver::Email(email) => f.write_str(email.as_str()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    #[default]
    None,
    Rollback,
}

/// Claimed by somebody for a while and deployed to by them alone. A claim or a release through the API is always
/// possible and is not listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub triggers: Vec<Trigger>,
    pub release: Vec<ReleaseRule>,
    pub on_release: OnRelease,
    /// How long a session lasts that names no end of its own.
    pub ttl: Option<Seconds>,
    pub labels: Vec<Label>,
    pub vars: BTreeMap<VarName, Scalar>,
    pub skip: BTreeSet<StepId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum Trigger {
    /// Any branch when none is named.
    PullRequest { target_branches: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum ReleaseRule {
    PrClosed,
    Timeout { after_idle: Seconds },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRelease {
    #[default]
    None,
    DeployTracked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub on_failure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    pub webhook: Label,
    pub events: Vec<String>,
}
