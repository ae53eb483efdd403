//! Sessions, queue tickets and the requests that create them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::deployment::WireDeployment;
use crate::environment::{Holder, LockStatus, WireLock};
use crate::event::WireActor;
use crate::pull_request::PullRequestLink;
use crate::{Data, ReplayableBody};

/// A session: exclusive use of an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct WireSession {
    #[schema(example = "ses_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub session_id: String,
    /// The same as `sessionId`.
    pub id: String,
    pub env_name: String,
    pub environment_id: String,
    pub pipeline_id: String,
    pub status: SessionStatus,
    /// Whether the environment was taken over from this session.
    pub overridden: bool,
    pub overridden_by: Option<WireActor>,
    #[schema(format = DateTime)]
    pub overridden_at: Option<String>,
    pub override_reason: Option<String>,
    pub holder: Holder,
    pub commit_id: Option<String>,
    pub context: Option<String>,
    /// Whom to ask about this session; absent if the claim named no contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "grace@acme.test")]
    pub contact: Option<String>,
    pub fence: i64,
    #[schema(format = DateTime)]
    pub claimed_at: String,
    #[schema(format = DateTime)]
    pub extended_at: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// The lease in seconds; absent if the session needs no heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 15, maximum = 600)]
    pub lease_seconds: Option<i64>,
    /// When the session ends unless a heartbeat arrives first; absent without a lease. An `ETag` does not cover it, so
    /// heartbeats do not end long polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub lease_expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub end_reason: Option<EndReason>,
    pub ended_by: Option<WireActor>,
    /// Takeover that was announced but has not happened yet.
    pub takeover: Option<Takeover>,
    /// Steps of earlier sessions that were still running when this session started, and that it waits for.
    pub drain: Option<Drain>,
    /// `locked` while this session is active, `unlocked` once it has ended, even if another session holds the
    /// environment.
    pub lock_status: LockStatus,
    /// Whether this session holds the environment's lock.
    pub holds_lock: bool,
    /// Current lock of the environment.
    pub environment: SessionEnvironment,
    /// The 100 most recent deployments, newest first. `deploymentsUrl` lists all of them.
    pub deployment_history: Vec<WireDeployment>,
    /// Total number of deployments in this session.
    pub deployment_count: i64,
    /// URL that lists all deployments of this session.
    pub deployments_url: String,
    /// The same as `deploymentHistory`.
    pub deployments: Vec<WireDeployment>,
    /// Pull request that the session belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request: Option<PullRequestLink>,
    /// Deployment started by this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deployment_id: Option<String>,
    /// In the response to a release: whether this request ended the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub released: Option<bool>,
    /// In the response to a claim with `sessionToken`: the token of this session. Returned only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "berth_ses_…")]
    pub session_token: Option<String>,
}

impl ReplayableBody for WireSession {}

/// Current lock of a session's environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnvironment {
    pub lock_status: LockStatus,
    pub lock: Option<WireLock>,
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
    /// Nothing was deployed for the idle time set in the definition.
    Idle,
    /// No heartbeat arrived within the lease.
    Lease,
    /// An admin stopped all agents.
    AgentsStopped,
    /// The server's database was restored from a backup.
    Restored,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    pub by: Holder,
    /// Null if it happens when the running deployment has finished.
    #[schema(format = DateTime)]
    pub at: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Deployments that may still be running.
    pub pending: Vec<String>,
    /// When the pending deployments are considered stopped.
    #[schema(format = DateTime)]
    pub deadline: String,
    #[schema(format = DateTime)]
    pub completed_at: Option<String>,
}

/// A position in the queue for an environment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ticket)]
pub struct WireTicket {
    #[schema(example = "tkt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub ticket_id: String,
    /// The same as `ticketId`.
    pub id: String,
    pub env_name: String,
    pub status: TicketStatus,
    /// Position in the queue, starting at 1; null once the ticket has ended.
    pub position: Option<usize>,
    /// Estimated time until the ticket is granted; null if unknown, and once the ticket has ended.
    pub eta_seconds: Option<i64>,
    /// Basis of `etaSeconds`; null once the ticket has ended.
    pub eta_basis: Option<EtaBasis>,
    /// Shared by the tickets of one claim-any. When one of them is granted, the others are cancelled.
    #[schema(example = "tkg_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub group_id: Option<String>,
    pub holder: Holder,
    pub commit_id: Option<String>,
    pub context: Option<String>,
    /// Whom to ask about the session; absent if the claim named no contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "grace@acme.test")]
    pub contact: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Why the ticket was cancelled.
    pub cause: Option<String>,
    /// Session that the ticket was granted.
    pub session_id: Option<String>,
    pub deployment_id: Option<String>,
    /// When the ticket takes over the environment, if it is a scheduled takeover.
    #[schema(format = DateTime)]
    pub takeover_at: Option<String>,
    /// In the response to a claim with `sessionToken`: the token of the session that the ticket leads to. Returned only
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "berth_ses_…")]
    pub session_token: Option<String>,
}

impl ReplayableBody for WireTicket {}

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
    /// Expiry times of the sessions ahead, and scheduled takeovers.
    Expiry,
    /// Durations of earlier sessions.
    History,
    /// A session ahead does not expire, and there are no earlier sessions to estimate from.
    Unknown,
}

/// Response to a claim: a session, or a ticket in the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClaimResult {
    Session(Box<WireSession>),
    Ticket(Box<WireTicket>),
}

impl ClaimResult {
    pub fn session_token(&self) -> Option<&str> {
        match self {
            ClaimResult::Session(session) => session.session_token.as_deref(),
            ClaimResult::Ticket(ticket) => ticket.session_token.as_deref(),
        }
    }

    pub fn set_session_token(&mut self, token: &str) {
        *self.session_token_mut() = Some(token.to_owned());
    }

    fn session_token_mut(&mut self) -> &mut Option<String> {
        match self {
            ClaimResult::Session(session) => &mut session.session_token,
            ClaimResult::Ticket(ticket) => &mut ticket.session_token,
        }
    }
}

impl ReplayableBody for ClaimResult {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        let mut shown = self.clone();
        *shown.session_token_mut() = None;
        serde_json::to_string(&Data { data: shown })
    }
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SessionNew {
    /// Deployed immediately unless `deploy` is false.
    #[schema(example = "9fceb02", max_length = 255)]
    pub commit_id: Option<String>,
    /// What the environment is used for. Visible to all members.
    #[schema(max_length = 4000, example = "checkout tests")]
    pub context: Option<String>,
    /// Whom to ask about this session, for example an e-mail address. Shown next to the holder; gives no permission.
    #[schema(min_length = 1, max_length = 200, example = "grace@acme.test")]
    pub contact: Option<String>,
    /// Time until the session expires. Defaults to the `ttl` in the definition.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    /// End the session if no heartbeat arrives for this long. The lease begins when the session does, for a queued claim
    /// when its ticket is granted. By default, the session needs no heartbeats; an agent's lease is 60 seconds by default.
    #[schema(minimum = 15, maximum = 600)]
    pub lease_seconds: Option<i64>,
    pub deploy: Option<bool>,
    /// If the environment is held, join its queue instead of failing. Defaults to false.
    pub queue: Option<bool>,
    /// How long to stay in the queue. Defaults to one hour.
    #[schema(minimum = 1, maximum = 604_800)]
    pub wait_seconds: Option<i64>,
    /// Return a `sessionToken`, which can only read, deploy in, extend and release this session. The session then
    /// belongs to that token: other requests of your account are not the holder. Defaults to false.
    pub session_token: Option<bool>,
}

/// Claims any free environment with a label.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnySessionNew {
    #[schema(example = "small")]
    pub label: String,
    #[schema(max_length = 255)]
    pub commit_id: Option<String>,
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    #[schema(min_length = 1, max_length = 200, example = "grace@acme.test")]
    pub contact: Option<String>,
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    /// End the session if no heartbeat arrives for this long.
    #[schema(minimum = 15, maximum = 600)]
    pub lease_seconds: Option<i64>,
    pub deploy: Option<bool>,
    /// If all environments are held, join all their queues and get the first that becomes free. Defaults to false.
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
    #[schema(min_length = 1, max_length = 200, example = "grace@acme.test")]
    pub contact: Option<String>,
    /// Shown to the previous holder. Defaults to `context`.
    #[schema(max_length = 4000)]
    pub reason: Option<String>,
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
    /// End the session if no heartbeat arrives for this long.
    #[schema(minimum = 15, maximum = 600)]
    pub lease_seconds: Option<i64>,
    pub deploy: Option<bool>,
    pub mode: Option<ForceMode>,
    /// With `grace`: how long the holder keeps the environment. Defaults to 5 minutes.
    #[schema(minimum = 1, maximum = 86_400)]
    pub grace_seconds: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForceMode {
    Now,
    /// When the running deployment has finished; immediately if none is running.
    AfterCurrentDeployment,
    /// After `graceSeconds`.
    Grace,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeployNew {
    #[schema(example = "9fceb02", max_length = 255)]
    pub commit_id: String,
    /// What the deployment is for. Shown with the deployment.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    pub on_conflict: Option<OnConflict>,
    /// Do not wait for steps of earlier sessions. Requires `drain:override`.
    pub override_drain: Option<OverrideDrain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Run after the other deployments (default).
    Queue,
    /// Replace deployments that have not started.
    Supersede,
    /// Fail while another deployment has not finished.
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
#[schema(as = Extend)]
pub struct ExtendRequest {
    /// New time until the session expires, from now. Defaults to the session's original length. Never shortens the
    /// session.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub ttl_seconds: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HandOver {
    /// Id or e-mail address of a member with `environments:claim`.
    #[schema(example = "grace@acme.test")]
    pub to: String,
}
