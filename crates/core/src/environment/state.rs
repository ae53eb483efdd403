//! The records: an environment, its sessions, and the tickets of those who wait.

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
    /// What the definition says about it, and the definition that said so.
    pub configuration: Configuration,
    pub definition_hash: String,
    /// False once the definition no longer names it. The record stays, so that its fence never falls.
    pub is_declared: bool,
    /// The last number given.
    pub fence: Fence,
    /// How many sessions, tickets and deployments there have been.
    pub sessions: i64,
    pub tickets: i64,
    pub deployments: i64,
    pub condition: Condition,
    pub deployed_commit: Option<CommitId>,
    pub agenda: Agenda,
    /// Rises with every change to anything in the lock.
    pub version: i64,
    pub created_at: Timestamp,
}

/// What is known of an environment's content when nothing is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Reset, or never used.
    Clean,
    /// A session has deployed.
    Dirty,
    /// Work was lost: nobody knows.
    Unknown,
}

/// What the store finds an environment by; worked out anew by every decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agenda {
    pub waiting: i64,
    pub unfinished: i64,
    pub holder: Option<SessionId>,
    /// When time alone will change something.
    pub due_at: Option<Timestamp>,
    /// A deployment that may start, unless the pipeline is stopped.
    pub startable: Option<DeploymentId>,
}

/// What people see of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Clean,
    Dirty,
    /// A reset is due or runs.
    Resetting,
    /// Work of an ended session may still run.
    Contested,
    Unknown,
}

/// A person or a service account, with the name they had when they claimed.
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

/// One holding of an environment's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub environment: EnvironmentId,
    /// Its place in the environment's history, from 1.
    pub number: i64,
    pub fence: Fence,
    pub holder: Holder,
    /// What was asked for last.
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    pub claimed_at: Timestamp,
    pub extended_at: Option<Timestamp>,
    /// Rises with every extension.
    pub extensions: i64,
    pub ttl_seconds: Option<i64>,
    pub expires_at: Option<Timestamp>,
    /// As the definition said when it was claimed: a later definition neither ends nor prolongs it.
    pub idle_seconds: Option<i64>,
    /// When its holder or a deployment of theirs last did something.
    pub active_at: Timestamp,
    /// The end that was announced.
    pub warned_of: Option<Timestamp>,
    /// How many deployments it has asked for.
    pub deployments: i64,
    pub drain: Option<Drain>,
    pub end: Option<End>,
}

/// What a session had to wait for when it was opened.
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
    /// The session that took its place in the same moment.
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
    /// The database is an older copy.
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

/// What somebody wants of an environment once they hold it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    pub commit: Option<CommitId>,
    pub context: Option<Reason>,
    pub ttl_seconds: Option<i64>,
    /// Whether the commit is deployed at once.
    pub deploy: bool,
}

/// A place in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub id: TicketId,
    pub environment: EnvironmentId,
    /// The order of arrival, from 1.
    pub number: i64,
    pub holder: Holder,
    /// With this token it was asked for; revoked with it.
    pub token: Option<TokenId>,
    pub wish: Wish,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub takeover: Option<Takeover>,
    /// Of a claim-any: one ticket of the group is granted, and the others leave their queues with it.
    pub group: Option<TicketGroupId>,
    /// Whether its owner may still claim; looked up whenever the lock is loaded.
    pub is_entitled: bool,
    pub status: TicketStatus,
}

/// A forced claim that waits for its moment, at the head of the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    pub target: SessionId,
    /// `None`: when the running deployment has ended.
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
    /// Somebody left the line.
    Requested,
    /// Its owner may no longer claim, or its token was revoked.
    Revoked,
    EnvironmentDeleted,
    /// The database is an older copy.
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

/// Who holds an environment, for whoever is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    pub session: Session,
    pub queue_length: usize,
    /// It is the caller who holds it.
    pub is_self: bool,
}

/// How a session ended, for whoever still wants to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotActive {
    pub session: Session,
    pub current_fence: Fence,
}

impl Session {
    /// Its holder or a deployment of theirs did something. A clock that was set back does not undo what was later.
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
