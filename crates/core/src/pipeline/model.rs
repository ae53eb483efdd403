//! The model of a valid definition, with all defaults filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::checkout::CheckoutScope;
use super::container::{ContainerOptions, StepServices};
use super::grammar::{ArtifactName, EnvVarName, Label, OutputName, SecretName, StageName, StepId, VarName};
use super::limits::QUEUE_AGEING_S_DEFAULT;
use super::seconds::DurationSeconds;
use super::window::DeploymentWindow;
use crate::access::Role;
use crate::name::{DisplayName, Email, EnvName, Slug};
use crate::step::{BuiltinStepType, NetworkAccess, OnLost, is_request};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineDefinition {
    pub name: DisplayName,
    /// The branch whose pushes start deployments.
    pub tracks: Option<String>,
    /// Glob patterns: a push starts a deployment only if a matching file changed. Empty means that every push does.
    pub paths: Vec<String>,
    /// The build steps, which run once per commit and definition.
    pub build: Vec<StepDefinition>,
    /// In order, with `stage_defaults` applied.
    pub stages: Vec<StageDefinition>,
    /// The steps that run in every stage and environment. Each stage and environment has its own vars and skips.
    pub steps: Vec<StepDefinition>,
    pub ephemeral_environments: BTreeMap<EnvName, EnvironmentDefinition>,
    pub analysis: AnalysisOptions,
    pub notifications: Vec<NotificationRule>,
}

impl PipelineDefinition {
    /// The custom step types that the definition uses, as written.
    pub fn custom_types(&self) -> BTreeSet<String> {
        let custom = |step: &StepDefinition| match &step.kind {
            StepType::Custom(text) => Some(text.clone()),
            StepType::Builtin(_) => None,
        };
        self.build.iter().chain(&self.steps).filter_map(custom).collect()
    }
}

impl PipelineDefinition {
    /// JSON pointers of the steps that send network requests but do not set `network`.
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
pub struct StageDefinition {
    pub name: StageName,
    pub vars: BTreeMap<VarName, VarValue>,
    pub skip: BTreeSet<StepId>,
    pub requires: Option<ApprovalPolicy>,
    pub window: Option<DeploymentWindow>,
    pub on_failure: OnFailure,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDefinition {
    pub name: DisplayName,
    pub id: StepId,
    #[serde(rename = "type")]
    pub kind: StepType,
    /// Steps that must finish first; by default the previous step.
    pub needs: Vec<StepId>,
    pub needs_artifacts: Vec<ArtifactName>,
    /// Values may contain expressions.
    pub env: BTreeMap<EnvVarName, String>,
    /// Each variable contains the path of a file that contains the secret.
    pub secret_files: BTreeMap<EnvVarName, SecretName>,
    /// The ID token that the step receives.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id_token: Option<IdTokenRequest>,
    /// Values may contain expressions, except the value of `run`.
    pub params: Map<String, Value>,
    pub outputs: Vec<OutputName>,
    pub artifacts: BTreeMap<ArtifactName, Artifact>,
    pub timeout: Option<DurationSeconds>,
    pub retry: Option<RetryPolicy>,
    pub on_lost: OnLost,
    pub idempotent: bool,
    pub runs_on: Vec<Label>,
    /// `None` means the organization's default.
    pub network: Option<NetworkAccess>,
    #[serde(skip_serializing_if = "CheckoutScope::is_all", default)]
    pub checkout: CheckoutScope,
    /// `None` for a step that runs on the runner's machine itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<ContainerOptions>,
    #[serde(skip_serializing_if = "StepServices::is_empty", default)]
    pub services: StepServices,
    #[serde(rename = "if")]
    pub condition: Option<StepCondition>,
}

/// The type of a step, written as one word: `script`, `tools/deploy@v2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StepType {
    Builtin(BuiltinStepType),
    /// A custom step type from a step registry, as written: `tools/deploy@v2`, `CUSTOM:DEPLOY`.
    Custom(String),
}

impl From<String> for StepType {
    fn from(text: String) -> Self {
        match BuiltinStepType::from_name(&text) {
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

/// The expression of an `if`, without `${{` and `}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepCondition(pub String);

/// A file or directory in the workspace that later steps can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub path: String,
}

/// An ID token that identifies the step to other services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdTokenRequest {
    /// The service that the token is for.
    pub audience: String,
    /// The variable that contains the path of the token's file.
    pub file: EnvVarName,
}

/// When to retry a failed step. For attempts with an unknown outcome, `on_lost` applies instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Total number of attempts, including the first.
    pub attempts: u32,
    pub backoff: DurationSeconds,
}

/// A value of `vars`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VarValue {
    Bool(bool),
    Number(Number),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalPolicy {
    /// Number of people who must approve.
    pub approvals: u32,
    /// Who may approve. Empty means every member with the permission.
    pub from: Vec<ApproverSelector>,
    pub self_approval: bool,
    pub timeout: Option<DurationSeconds>,
}

impl ApprovalPolicy {
    /// Why the rule can never be met; `None` if it might be. The members are not known here, so a rule that names a
    /// role or a team is never reported.
    pub fn unmeetable_reason(&self) -> Option<String> {
        let mut people = BTreeSet::new();
        for approver in &self.from {
            match approver {
                ApproverSelector::Role(_) | ApproverSelector::Team(_) => return None,
                ApproverSelector::Email(email) => drop(people.insert(email.key())),
            }
        }
        let wanted = usize::try_from(self.approvals).unwrap_or(usize::MAX);
        (!people.is_empty() && people.len() < wanted).then(|| {
            let (wanted, named) = (self.approvals, people.len());
            format!("{wanted} approvals are required, but `from` names only {named}; name more people, or require fewer approvals")
        })
    }
}

/// Who may approve: a role, a team (`team:sre`) or an email address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ApproverSelector {
    /// A role that includes this one, in the organization or on the stage.
    Role(Role),
    Team(Slug),
    Email(Email),
}

impl TryFrom<String> for ApproverSelector {
    type Error = InvalidApprover;
    fn try_from(text: String) -> Result<Self, InvalidApprover> {
        if let Ok(role) = text.parse() {
            return Ok(ApproverSelector::Role(role));
        }
        match text.strip_prefix("team:") {
            Some(team) => Slug::parse(team).map(ApproverSelector::Team).map_err(|_| InvalidApprover),
            None => Email::parse(&text).map(ApproverSelector::Email).map_err(|_| InvalidApprover),
        }
    }
}

impl From<ApproverSelector> for String {
    fn from(approver: ApproverSelector) -> String {
        approver.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is neither a role, a team (team:NAME) nor an e-mail address")]
pub struct InvalidApprover;

impl fmt::Display for ApproverSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApproverSelector::Role(role) => role.fmt(f),
            ApproverSelector::Team(team) => write!(f, "team:{team}"),
            ApproverSelector::Email(email) => f.write_str(email.as_str()),
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

/// An ephemeral environment, which members claim in sessions. It can always be claimed and released through the API, so
/// `triggers` and `release` do not list that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentDefinition {
    pub triggers: Vec<ClaimTrigger>,
    pub release: Vec<ReleaseCondition>,
    pub on_release: ReleaseAction,
    /// Default TTL of a session.
    pub ttl: Option<DurationSeconds>,
    pub labels: Vec<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerTeam>,
    #[serde(default, skip_serializing_if = "QueuePolicy::is_default")]
    pub queue: QueuePolicy,
    pub vars: BTreeMap<VarName, VarValue>,
    pub skip: BTreeSet<StepId>,
}

/// In which order the tickets of an environment are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePolicy {
    pub order: QueueOrder,
    /// With the order by class: a waiting ticket moves up a class each time it has waited for this long.
    pub ageing: DurationSeconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    #[default]
    Arrival,
    /// People, then CI (service accounts), then agents.
    Class,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { order: QueueOrder::default(), ageing: DurationSeconds::from_secs(QUEUE_AGEING_S_DEFAULT) }
    }
}

impl QueuePolicy {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The team that is responsible for an environment, written `team:qa`. Owning an environment grants no permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerTeam(pub Slug);

impl TryFrom<String> for OwnerTeam {
    type Error = InvalidOwner;
    fn try_from(text: String) -> Result<Self, InvalidOwner> {
        let slug = text.strip_prefix("team:").ok_or(InvalidOwner)?;
        Slug::parse(slug).map(OwnerTeam).map_err(|_| InvalidOwner)
    }
}

impl From<OwnerTeam> for String {
    fn from(owner: OwnerTeam) -> String {
        owner.to_string()
    }
}

impl fmt::Display for OwnerTeam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "team:{}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a team; write team:NAME")]
pub struct InvalidOwner;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum ClaimTrigger {
    /// `target_branches` is empty if any target branch matches.
    PullRequest {
        target_branches: Vec<String>,
        #[serde(default, skip_serializing_if = "PullRequestFilter::is_empty")]
        when: PullRequestFilter,
    },
}

/// Which pull requests claim an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestFilter {
    /// The pull request must have all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// `None` if it makes no difference whether the pull request is a draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<bool>,
}

impl PullRequestFilter {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum ReleaseCondition {
    PrClosed,
    Timeout { after_idle: DurationSeconds },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseAction {
    #[default]
    None,
    DeployTracked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnalysisOptions {
    pub on_failure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationRule {
    pub webhook: Label,
    pub events: Vec<String>,
}
