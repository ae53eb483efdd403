//! Ephemeral environments: configuration, lock status, lock history and usage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::commit::WireCommit;
use crate::event::WireActor;
use crate::pull_request::PullRequestLink;
use crate::session::{EndReason, SessionStatus, Takeover};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Environment)]
pub struct WireEnvironment {
    #[schema(example = "env_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "qa-1")]
    pub env_name: String,
    /// The same as `envName`.
    pub name: String,
    pub pipeline_id: String,
    pub configuration: EnvironmentConfiguration,
    pub lock_status: LockStatus,
    /// Current lock; null if unlocked.
    pub lock: Option<WireLock>,
    pub state: EnvironmentState,
    /// Last commit that was deployed successfully.
    pub deployed_commit_id: Option<String>,
    /// The commit of `deployedCommitId`; null if nothing was deployed, or the commit was not resolved.
    pub commit: Option<WireCommit>,
    /// Fencing token. Increases every time the holder changes and never decreases.
    pub fence: i64,
    pub queue_length: usize,
    /// Pull request that the current session belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request: Option<PullRequestLink>,
}

impl ReplayableBody for WireEnvironment {}

/// Configuration of an environment from the pipeline definition.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Configuration)]
pub struct EnvironmentConfiguration {
    pub triggers: Vec<Trigger>,
    pub release: Vec<ReleaseRule>,
    pub on_release: OnRelease,
    pub vars: BTreeMap<String, serde_json::Value>,
    /// Steps that are skipped in this environment.
    pub skip: Vec<String>,
    pub labels: Vec<String>,
    /// Team that is responsible for the environment; null if none.
    #[schema(example = "team:qa")]
    pub owner: Option<String>,
    /// Default length of a session; null if sessions do not expire.
    pub ttl_seconds: Option<i64>,
    /// In which order waiting tickets are granted; absent for the order of arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub queue: Option<QueueConfiguration>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueConfiguration {
    pub order: WireQueueOrder,
    /// A waiting ticket moves up a class each time it has waited for this long.
    pub ageing_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueueOrder)]
pub enum WireQueueOrder {
    Arrival,
    /// People, then service accounts, then agents.
    Class,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    #[schema(example = "api")]
    pub on: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub target_branches: Option<Vec<String>>,
    /// Labels that a pull request must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub labels: Option<Vec<String>>,
    /// Whether only drafts claim the environment, or only pull requests that are no drafts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub draft: Option<bool>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRule {
    #[schema(example = "api")]
    pub on: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub after_idle_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRelease {
    None,
    DeployTracked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockStatus {
    Unlocked,
    Locked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentState {
    /// Reset, or never deployed to.
    Clean,
    /// A session has deployed to it.
    Dirty,
    /// A reset is queued or running.
    Resetting,
    /// Steps of an ended session may still be running.
    Contested,
    /// What is deployed is unknown.
    Unknown,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Lock)]
pub struct WireLock {
    pub status: LockStatus,
    pub session_id: String,
    pub holder: Holder,
    pub commit_id: Option<String>,
    pub context: Option<String>,
    /// Whom to ask about the session; absent if the claim named no contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "grace@acme.test")]
    pub contact: Option<String>,
    #[schema(format = DateTime)]
    pub claimed_at: String,
    /// When the session expires; null if it does not.
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// When the session ends unless a heartbeat arrives first; absent without a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub lease_expires_at: Option<String>,
    pub fence: i64,
    /// Announced takeover of the session; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub takeover: Option<Takeover>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    #[serde(rename = "type")]
    pub kind: HolderKind,
    pub id: String,
    #[schema(example = "Ada")]
    pub name: String,
    /// The person responsible for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner: Option<HolderOwner>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderOwner {
    pub id: String,
    #[schema(example = "Ada")]
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    User,
    Service,
    Agent,
}

/// One session in the lock history of an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    pub session_id: String,
    pub holder: Holder,
    pub context: Option<String>,
    /// Whom to ask about the session; absent if the claim named no contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "grace@acme.test")]
    pub contact: Option<String>,
    pub commit_id: Option<String>,
    pub status: SessionStatus,
    #[schema(format = DateTime)]
    pub claimed_at: String,
    /// Null while the session is active.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub end_reason: Option<EndReason>,
    pub ended_by: Option<WireActor>,
    /// Duration until now while the session is active.
    pub duration_seconds: i64,
    pub deployment_count: i64,
    pub fence: i64,
}

/// Usage statistics of an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Insights)]
pub struct EnvironmentInsights {
    pub env_name: String,
    #[schema(format = DateTime)]
    pub from: String,
    #[schema(format = DateTime)]
    pub to: String,
    pub sessions: usize,
    /// Fraction of the period during which the environment was held, from 0 to 1.
    pub utilisation: f64,
    /// Session durations.
    pub hold_seconds: Spread,
    /// Time that granted tickets waited in the queue.
    pub wait_seconds: Spread,
    pub takeovers: usize,
    /// Number of sessions that ended by expiry or idle timeout.
    pub expired: usize,
    /// Number of tickets that left the queue without being granted.
    pub gave_up: usize,
    /// Members with the longest total session time, at most 10.
    pub holders: Vec<HolderShare>,
}

impl ReplayableBody for EnvironmentInsights {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    pub median: Option<i64>,
    pub p90: Option<i64>,
    pub max: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HolderShare {
    pub holder: Holder,
    pub sessions: usize,
    pub seconds: i64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Numbered<T> {
    pub data: Vec<T>,
    pub pagination: PageNumbers,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageNumbers {
    /// Page number, starting at 1.
    #[schema(example = 1)]
    pub page: i64,
    #[schema(example = 50)]
    pub limit: i64,
    pub total: i64,
    pub total_pages: i64,
    pub has_more: bool,
}

/// A complete list without pagination.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct All<T> {
    pub data: Vec<T>,
}
