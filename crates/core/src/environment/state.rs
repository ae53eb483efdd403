//! Environments, sessions and tickets.

use serde::{Deserialize, Serialize};

use super::fence::Fence;
use crate::agent::AgentHolder;
use crate::event::{Actor, ActorType};
use crate::id::{
    DeploymentId, EnvironmentId, PipelineId, SessionId, TicketGroupId, TicketId, TokenId, UserId,
};
use crate::name::{CommitId, Contact, EnvName, Reason};
use crate::pipeline::model::EnvironmentDefinition;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    pub id: EnvironmentId,
    pub pipeline: PipelineId,
    pub name: EnvName,
    /// The environment's part of the pipeline definition; `definition_hash` identifies the definition.
    pub configuration: EnvironmentDefinition,
    pub definition_hash: String,
    /// False once the definition no longer declares the environment. The record is kept, so that its fence never
    /// decreases.
    pub is_declared: bool,
    /// The last fence issued.
    pub fence: Fence,
    /// Number of sessions so far; `tickets` and `deployments` count likewise.
    pub sessions: i64,
    pub tickets: i64,
    pub deployments: i64,
    pub condition: EnvironmentCondition,
    pub deployed_commit: Option<CommitId>,
    pub agenda: LockAgenda,
    /// Increases with every change to any record of the lock.
    pub version: i64,
    pub created_at: Timestamp,
}

/// What is known about the content of an environment while nothing is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentCondition {
    /// The environment was reset, or never used.
    Clean,
    /// A session has deployed to it.
    Dirty,
    /// The outcome of a deployment or reset is unknown.
    Unknown,
}

/// Values that the store indexes to find locks with work to do. Every decision derives them from the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockAgenda {
    pub waiting: i64,
    pub unfinished: i64,
    pub holder: Option<SessionId>,
    /// When the next timer expires.
    pub due_at: Option<Timestamp>,
    /// A deployment that may start, provided that the pipeline is not stopped.
    pub startable: Option<DeploymentId>,
}

/// The status that users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentStatus {
    Clean,
    Dirty,
    /// A reset is queued or running.
    Resetting,
    /// Work of an ended session may still be running.
    Contested,
    Unknown,
}

/// The person or service account that holds a lock, with its name at the time of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    #[serde(rename = "type")]
    pub kind: ActorType,
    pub id: UserId,
    pub name: String,
    /// The session token that the claim asked for. Such a session belongs to the token: other requests of the same
    /// account are not the holder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_token: Option<TokenId>,
    /// Set if the holder is an agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<Box<AgentHolder>>,
}

impl LockHolder {
    /// Whether both are the same holder. The name may have changed since.
    pub fn is_same(&self, other: &LockHolder) -> bool {
        self.id == other.id && self.session_token == other.session_token
    }

    pub fn actor(&self) -> Actor {
        Actor { kind: self.kind, id: Some(self.id), name: self.name.clone(), token: None }
    }
}

/// The exclusive use of an environment by one holder, from claim to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub environment: EnvironmentId,
    /// Counts the environment's sessions, from 1.
    pub number: i64,
    pub fence: Fence,
    pub holder: LockHolder,
    /// The most recently requested commit.
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    /// Whom to ask about the session. Shown next to the holder; gives no permission.
    pub contact: Option<Contact>,
    pub claimed_at: Timestamp,
    pub extended_at: Option<Timestamp>,
    /// Number of extensions so far.
    pub extensions: i64,
    pub ttl_seconds: Option<i64>,
    pub expires_at: Option<Timestamp>,
    /// How long the session lives without a heartbeat; `None` if it needs none.
    pub lease_seconds: Option<i64>,
    /// When the session ends unless a heartbeat arrives first. Set if and only if there is a lease.
    pub lease_expires_at: Option<Timestamp>,
    /// The idle timeout when the session was claimed. Later changes of the definition do not affect it.
    pub idle_seconds: Option<i64>,
    /// When the holder or a deployment of the session was last active.
    pub active_at: Timestamp,
    /// The expiry time that the last warning announced.
    pub warned_of: Option<Timestamp>,
    /// Number of deployments requested in the session.
    pub deployments: i64,
    pub drain: Option<SessionDrain>,
    pub end: Option<SessionEnd>,
}

/// The deployments of ended sessions that must stop before this session can deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDrain {
    pub pending: Vec<DeploymentId>,
    pub deadline: Timestamp,
    pub completed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub at: Timestamp,
    pub reason: SessionEndReason,
    pub by: Actor,
    pub why: Option<Reason>,
    /// The session that replaced this one in the same decision.
    pub successor: Option<SessionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEndReason {
    Released,
    HandedOver,
    EnvironmentDeleted,
    Overridden,
    Expired,
    Idle,
    /// No heartbeat arrived within the lease.
    Lease,
    /// An admin stopped all agents.
    AgentsStopped,
    /// The database was restored from a backup.
    Restored,
}

impl SessionEndReason {
    pub const ALL: [SessionEndReason; 9] = [
        SessionEndReason::Released,
        SessionEndReason::HandedOver,
        SessionEndReason::EnvironmentDeleted,
        SessionEndReason::Overridden,
        SessionEndReason::Expired,
        SessionEndReason::Idle,
        SessionEndReason::Lease,
        SessionEndReason::AgentsStopped,
        SessionEndReason::Restored,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            SessionEndReason::Released => "released",
            SessionEndReason::HandedOver => "handed_over",
            SessionEndReason::EnvironmentDeleted => "environment_deleted",
            SessionEndReason::Overridden => "overridden",
            SessionEndReason::Expired => "expired",
            SessionEndReason::Idle => "idle",
            SessionEndReason::Lease => "lease",
            SessionEndReason::AgentsStopped => "agents_stopped",
            SessionEndReason::Restored => "restored",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    Active,
    Released,
    Overridden,
    Expired,
}

impl SessionState {
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionState::Active => "active",
            SessionState::Released => "released",
            SessionState::Overridden => "overridden",
            SessionState::Expired => "expired",
        }
    }
}

/// What the caller of a claim wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimTerms {
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    pub contact: Option<Contact>,
    pub ttl_seconds: Option<i64>,
    /// The lease of the session; it begins when the session does.
    pub lease_seconds: Option<i64>,
    /// Whether to deploy the commit as soon as the session starts.
    pub deploy: bool,
    /// Whether the commit comes from a fork, so that its steps get no secrets.
    pub is_untrusted: bool,
}

/// A claim that waits in an environment's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub id: TicketId,
    pub environment: EnvironmentId,
    /// Order of arrival in this environment, from 1.
    pub number: i64,
    pub holder: LockHolder,
    /// The API token that created the ticket. Revoking the token cancels the ticket.
    pub token: Option<TokenId>,
    pub terms: ClaimTerms,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub takeover: Option<PendingTakeover>,
    /// Set if the ticket belongs to a claim for any of several environments. Granting one ticket of the group withdraws
    /// the others.
    pub group: Option<TicketGroupId>,
    /// Whether the ticket's owner still has the permission to claim. Checked when the lock is loaded.
    pub is_entitled: bool,
    pub status: TicketState,
}

/// A force-claim that has not happened yet. Its ticket is at the head of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTakeover {
    pub target: SessionId,
    /// When the takeover happens; `None` means as soon as the running deployment has ended.
    pub at: Option<Timestamp>,
    pub why: Option<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketState {
    Waiting,
    Granted { at: Timestamp, session: SessionId, deployment: Option<DeploymentId> },
    Cancelled { at: Timestamp, cause: TicketCause },
    Expired { at: Timestamp },
}

impl TicketState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            TicketState::Waiting => "waiting",
            TicketState::Granted { .. } => "granted",
            TicketState::Cancelled { .. } => "cancelled",
            TicketState::Expired { .. } => "expired",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketCause {
    /// The owner left the queue.
    Requested,
    /// The owner lost the permission to claim, or the token was revoked.
    Revoked,
    EnvironmentDeleted,
    /// The database was restored from a backup.
    Restored,
    /// Another ticket of the same group was granted.
    GrantedElsewhere,
    /// An admin stopped all agents.
    AgentsStopped,
}

impl TicketCause {
    pub const fn as_str(self) -> &'static str {
        match self {
            TicketCause::Requested => "requested",
            TicketCause::Revoked => "revoked",
            TicketCause::EnvironmentDeleted => "environment_deleted",
            TicketCause::Restored => "restored",
            TicketCause::GrantedElsewhere => "granted_elsewhere",
            TicketCause::AgentsStopped => "agents_stopped",
        }
    }
}

/// Who holds the environment; returned when a claim is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockConflict {
    pub session: Session,
    pub queue_length: usize,
    /// The caller is the holder.
    pub is_self: bool,
}

/// How a session ended; returned when a command for that session is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InactiveSession {
    pub session: Session,
    pub current_fence: Fence,
}

impl Session {
    /// The holder and, if there is one, the contact: `ci-bot for grace`.
    pub fn holder_label(&self) -> String {
        let name = match &self.holder.agent {
            Some(agent) => format!("{}, agent of {}", self.holder.name, agent.owner_name),
            None => self.holder.name.clone(),
        };
        match &self.contact {
            Some(contact) => format!("{name} for {contact}"),
            None => name,
        }
    }

    /// The latest time at which the session can end, if its holder is an agent.
    pub(crate) fn length_limit(&self) -> Option<Timestamp> {
        self.holder.agent.as_ref().map(|agent| self.claimed_at.plus_seconds(agent.session_seconds))
    }

    /// Restarts the idle timer. If the clock was set back, the time of the last activity stays as it is.
    pub(crate) fn note_activity(&mut self, now: Timestamp) {
        self.active_at = self.active_at.max(now);
    }

    /// Restarts the lease, if there is one. Never shortens it.
    pub(crate) fn renew_lease(&mut self, now: Timestamp) {
        if let (Some(seconds), Some(at)) = (self.lease_seconds, self.lease_expires_at) {
            self.lease_expires_at = Some(at.max(now.plus_seconds(seconds)));
        }
    }

    pub fn status(&self) -> SessionState {
        match self.end.as_ref().map(|end| end.reason) {
            None => SessionState::Active,
            Some(
                SessionEndReason::Released
                | SessionEndReason::HandedOver
                | SessionEndReason::EnvironmentDeleted
                | SessionEndReason::AgentsStopped
                | SessionEndReason::Restored,
            ) => SessionState::Released,
            Some(SessionEndReason::Overridden) => SessionState::Overridden,
            Some(SessionEndReason::Expired | SessionEndReason::Idle | SessionEndReason::Lease) => {
                SessionState::Expired
            }
        }
    }
}
