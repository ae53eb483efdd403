//! Sessions in environments, the line of those who wait, and how both are asked for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::deployment::Deployment;
use crate::environment::{Holder, Lock, LockStatus};
use crate::event::Actor;

/// One holding of an environment's lock.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    #[schema(example = "ses_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub session_id: String,
    /// The same as `sessionId`.
    pub id: String,
    pub env_name: String,
    pub environment_id: String,
    pub pipeline_id: String,
    pub status: SessionStatus,
    /// Somebody took the environment over.
    pub overridden: bool,
    pub overridden_by: Option<Actor>,
    #[schema(format = DateTime)]
    pub overridden_at: Option<String>,
    pub override_reason: Option<String>,
    pub holder: Holder,
    pub commit_id: Option<String>,
    pub context: Option<String>,
    pub fence: i64,
    #[schema(format = DateTime)]
    pub claimed_at: String,
    #[schema(format = DateTime)]
    pub extended_at: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub end_reason: Option<EndReason>,
    pub ended_by: Option<Actor>,
    /// A takeover that has been announced and has not happened yet.
    pub takeover: Option<Takeover>,
    /// What it had to wait for when it began: work of former sessions that was still running.
    pub drain: Option<Drain>,
    /// Of this session: `locked` while it is active, `unlocked` once it has ended, also when another session holds the
    /// environment by then.
    pub lock_status: LockStatus,
    /// Whether this session holds the environment's lock.
    pub holds_lock: bool,
    /// The environment, now.
    pub environment: SessionEnvironment,
    /// Newest first, at most 100; `deploymentsUrl` leads to all of them.
    pub deployment_history: Vec<Deployment>,
    /// How many there have been, also those that the history leaves out.
    pub deployment_count: i64,
    /// The list of all of them.
    pub deployments_url: String,
    /// The same as `deploymentHistory`.
    pub deployments: Vec<Deployment>,
    /// The deployment this request started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deployment_id: Option<String>,
    /// In the answer to a release: whether it was this one that ended the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub released: Option<bool>,
}

impl Replay for Session {}

/// The environment of a session, and the session that holds it now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnvironment {
    pub lock_status: LockStatus,
    pub lock: Option<Lock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Active,
    Released,
    Overridden,
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Released,
    HandedOver,
    EnvironmentDeleted,
    Overridden,
    Expired,
    /// Nothing was deployed for as long as the definition allows.
    Idle,
    /// The database was restored from a backup.
    Restored,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    pub by: Holder,
    /// Null: when the running deployment has ended.
    #[schema(format = DateTime)]
    pub at: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Deployments that are not known to have stopped.
    pub pending: Vec<String>,
    /// By then they count as stopped.
    #[schema(format = DateTime)]
    pub deadline: String,
    #[schema(format = DateTime)]
    pub completed_at: Option<String>,
}

/// A place in line.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    #[schema(example = "tkt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub ticket_id: String,
    /// The same as `ticketId`.
    pub id: String,
    pub env_name: String,
    pub status: TicketStatus,
    /// From 1; null once it no longer waits.
    pub position: Option<usize>,
    /// In how many seconds its turn is expected; null where nothing is known, and once it no longer waits.
    pub eta_seconds: Option<i64>,
    /// What `etaSeconds` is based on; null once it no longer waits.
    pub eta_basis: Option<EtaBasis>,
    /// Of a claim-any: its tickets have the same. One of them is granted, and the others are cancelled with it.
    #[schema(example = "tkg_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub group_id: Option<String>,
    pub holder: Holder,
    pub commit_id: Option<String>,
    pub context: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Why it was cancelled.
    pub cause: Option<String>,
    /// What it was granted.
    pub session_id: Option<String>,
    pub deployment_id: Option<String>,
    /// When it takes the environment over, if it is a takeover with a time.
    #[schema(format = DateTime)]
    pub takeover_at: Option<String>,
}

impl Replay for Ticket {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TicketStatus {
    Waiting,
    Granted,
    Cancelled,
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EtaBasis {
    /// The sessions ahead end by themselves, or by an announced takeover, by then.
    Expiry,
    /// Sessions ahead are expected to last as long as earlier ones did.
    History,
    /// A session ahead has no end of its own, and none has ended here yet.
    Unknown,
}

/// The answer to a claim: the lock, or a place in line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Claimed {
    Session(Box<Session>),
    Ticket(Box<Ticket>),
}

impl Replay for Claimed {}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SessionNew {
    /// Deployed at once, unless `deploy` is false.
    #[schema(example = "9fceb02", max_length = 255)]
    pub commit_id: Option<String>,
    /// What for: shown to everybody who looks.
    #[schema(max_length = 4000, example = "checkout tests")]
    pub context: Option<String>,
    /// Ends by itself after so long; without it, as the definition says.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    pub deploy: Option<bool>,
    /// Held by somebody: wait in line.
    pub queue: Option<bool>,
    /// How long to wait in line: an hour unless given.
    #[schema(minimum = 1, maximum = 604_800)]
    pub wait_seconds: Option<i64>,
}

/// A claim of any free environment with a label.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnySessionNew {
    #[schema(example = "small")]
    pub label: String,
    #[schema(max_length = 255)]
    pub commit_id: Option<String>,
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    pub deploy: Option<bool>,
    /// All held: wait for all of them, and get the first that becomes free.
    pub queue: Option<bool>,
    #[schema(minimum = 1, maximum = 604_800)]
    pub wait_seconds: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ForceClaim {
    #[schema(max_length = 255)]
    pub commit_id: Option<String>,
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    /// Shown to whoever loses the environment; `context` unless given.
    #[schema(max_length = 4000)]
    pub reason: Option<String>,
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    pub deploy: Option<bool>,
    pub mode: Option<ForceMode>,
    /// For `grace`: how long the holder has; 5 minutes unless given.
    #[schema(minimum = 1, maximum = 86_400)]
    pub grace_seconds: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForceMode {
    Now,
    /// When the running deployment has ended; at once if none runs.
    AfterCurrentDeployment,
    /// After `graceSeconds`.
    Grace,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeployNew {
    #[schema(example = "9fceb02", max_length = 255)]
    pub commit_id: String,
    /// What for: shown with the deployment.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    pub on_conflict: Option<OnConflict>,
    /// Do not wait for the work of former sessions; needs `drain:override`.
    pub override_drain: Option<OverrideDrain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// After the others: the default.
    Queue,
    /// In place of those that have not started.
    Supersede,
    /// Refuse while one has not ended.
    Reject,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OverrideDrain {
    #[schema(min_length = 1, max_length = 4000)]
    pub reason: String,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Extend {
    /// From now; the session's own length unless given. Never makes it shorter.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HandOver {
    /// Id or e-mail address of a member who may claim environments.
    #[schema(example = "grace@acme.test")]
    pub to: String,
}
