//! Environments, sessions and tickets.

use serde::{Deserialize, Serialize};

use super::fence::Fence;
use crate::event::{Actor, ActorKind};
use crate::id::{
    DeploymentId, EnvironmentId, PipelineId, SessionId, TicketGroupId, TicketId, TokenId, UserId,
};
use crate::name::{CommitId, EnvName, Reason};
use crate::pipeline::model::Environment as Configuration;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    pub id: EnvironmentId,
    pub pipeline: PipelineId,
    pub name: EnvName,
    /// The configuration from the pipeline definition with this hash.
    pub configuration: Configuration,
    pub definition_hash: String,
    /// False once the definition no longer declares it. The record stays, so that its fence never decreases.
    pub is_declared: bool,
    /// The last fence issued.
    pub fence: Fence,
    /// Totals of sessions, tickets and deployments.
    pub sessions: i64,
    pub tickets: i64,
    pub deployments: i64,
    pub condition: Condition,
    pub deployed_commit: Option<CommitId>,
    pub agenda: Agenda,
    /// Increases with every change to anything in the lock.
    pub version: i64,
    pub created_at: Timestamp,
}

/// What is known about the content of an environment while nothing is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Reset, or never used.
    Clean,
    /// A session has deployed.
    Dirty,
    /// The outcome of some work is unknown.
    Unknown,
}

/// Index columns for the store, derived by every decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agenda {
    pub waiting: i64,
    pub unfinished: i64,
    pub holder: Option<SessionId>,
    /// When the next timer expires.
    pub due_at: Option<Timestamp>,
    /// A deployment that may start unless the pipeline is stopped.
    pub startable: Option<DeploymentId>,
}

/// The state that users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Clean,
    Dirty,
    /// A reset is queued or running.
    Resetting,
    /// Work of an ended session may still be running.
    Contested,
    Unknown,
}

/// A person or a service account, with its name at the time of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    #[serde(rename = "type")]
    pub kind: ActorKind,
    pub id: UserId,
    pub name: String,
}

impl Holder {
    pub fn actor(&self) -> Actor {
        Actor { kind: self.kind, id: Some(self.id), name: self.name.clone(), token: None }
    }
}

/// An exclusive lock on an environment, from claim to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub environment: EnvironmentId,
    /// Position in the environment's lock history, from 1.
    pub number: i64,
    pub fence: Fence,
    pub holder: Holder,
    /// The commit requested last.
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    pub claimed_at: Timestamp,
    pub extended_at: Option<Timestamp>,
    /// Number of extensions so far.
    pub extensions: i64,
    pub ttl_seconds: Option<i64>,
    pub expires_at: Option<Timestamp>,
    /// The idle timeout at the time of the claim; later definitions do not change it.
    pub idle_seconds: Option<i64>,
    /// Last activity of the holder or of a deployment of the session.
    pub active_at: Timestamp,
    /// The expiry for which a warning was sent.
    pub warned_of: Option<Timestamp>,
    /// Number of deployments requested in the session.
    pub deployments: i64,
    pub drain: Option<Drain>,
    pub end: Option<End>,
}

/// Work of ended sessions that must stop before the session can deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub pending: Vec<DeploymentId>,
    pub deadline: Timestamp,
    pub completed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub at: Timestamp,
    pub reason: EndReason,
    pub by: Actor,
    pub why: Option<Reason>,
    /// The session that replaced it in the same decision.
    pub successor: Option<SessionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Released,
    HandedOver,
    EnvironmentDeleted,
    Overridden,
    Expired,
    Idle,
    /// The database was restored from a backup.
    Restored,
}

impl EndReason {
    pub const ALL: [EndReason; 7] = [
        EndReason::Released,
        EndReason::HandedOver,
        EndReason::EnvironmentDeleted,
        EndReason::Overridden,
        EndReason::Expired,
        EndReason::Idle,
        EndReason::Restored,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            EndReason::Released => "released",
            EndReason::HandedOver => "handed_over",
            EndReason::EnvironmentDeleted => "environment_deleted",
            EndReason::Overridden => "overridden",
            EndReason::Expired => "expired",
            EndReason::Idle => "idle",
            EndReason::Restored => "restored",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    Active,
    Released,
    Overridden,
    Expired,
}

impl SessionStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionStatus::Active => "active",
            SessionStatus::Released => "released",
            SessionStatus::Overridden => "overridden",
            SessionStatus::Expired => "expired",
        }
    }
}

/// What a caller wants from an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    pub ttl_seconds: Option<i64>,
    /// Deploy the commit right after the grant.
    pub deploy: bool,
}

/// A position in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub id: TicketId,
    pub environment: EnvironmentId,
    /// Order of arrival, from 1.
    pub number: i64,
    pub holder: Holder,
    /// The API token that created the ticket; revoking it revokes the ticket.
    pub token: Option<TokenId>,
    pub wish: Wish,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub takeover: Option<Takeover>,
    /// For a claim of one of several environments: granting one ticket of the group withdraws the others.
    pub group: Option<TicketGroupId>,
    /// Whether the owner may still claim; checked when the lock is loaded.
    pub is_entitled: bool,
    pub status: TicketStatus,
}

/// A pending force claim, at the head of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    pub target: SessionId,
    /// `None` means: when the running deployment has ended.
    pub at: Option<Timestamp>,
    pub why: Option<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketStatus {
    Waiting,
    Granted { at: Timestamp, session: SessionId, deployment: Option<DeploymentId> },
    Cancelled { at: Timestamp, cause: TicketCause },
    Expired { at: Timestamp },
}

impl TicketStatus {
    pub const fn as_str(&self) -> &'static str {
        match self {
            TicketStatus::Waiting => "waiting",
            TicketStatus::Granted { .. } => "granted",
            TicketStatus::Cancelled { .. } => "cancelled",
            TicketStatus::Expired { .. } => "expired",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketCause {
    /// The owner left the queue.
    Requested,
    /// The owner may no longer claim, or the token was revoked.
    Revoked,
    EnvironmentDeleted,
    /// The database was restored from a backup.
    Restored,
    /// Another ticket of its group was granted.
    GrantedElsewhere,
}

impl TicketCause {
    pub const fn as_str(self) -> &'static str {
        match self {
            TicketCause::Requested => "requested",
            TicketCause::Revoked => "revoked",
            TicketCause::EnvironmentDeleted => "environment_deleted",
            TicketCause::Restored => "restored",
            TicketCause::GrantedElsewhere => "granted_elsewhere",
        }
    }
}

/// Who holds an environment; part of a refused claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    pub session: Session,
    pub queue_length: usize,
    /// The caller is the holder.
    pub is_self: bool,
}

/// How a session ended; part of the refusal of a command for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotActive {
    pub session: Session,
    pub current_fence: Fence,
}

impl Session {
    /// Restarts the idle timer. A clock that was set back does not move it backwards.
    pub(crate) fn note_activity(&mut self, now: Timestamp) {
        self.active_at = self.active_at.max(now);
    }

    pub fn status(&self) -> SessionStatus {
        match self.end.as_ref().map(|end| end.reason) {
            None => SessionStatus::Active,
            Some(
                EndReason::Released
                | EndReason::HandedOver
                | EndReason::EnvironmentDeleted
                | EndReason::Restored,
            ) => SessionStatus::Released,
            Some(EndReason::Overridden) => SessionStatus::Overridden,
            Some(EndReason::Expired | EndReason::Idle) => SessionStatus::Expired,
        }
    }
}
