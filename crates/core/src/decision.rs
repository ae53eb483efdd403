//! The result of a rule: a decision or a refusal. Rules have no side effects; the caller commits the decision.

use crate::agent::AgentLimitReached;
use crate::analysis::{Analysis, AnalysisPullRequest};
use crate::approval::Approval;
use crate::deployment::run::RunChange;
use crate::deployment::stages::stage::{Stage, StageEnd};
use crate::deployment::{EnvironmentDeployment, StagesDeployment};
use crate::environment::fence::Fence;
use crate::environment::{Environment, InactiveSession, LockConflict, LockHolder, Session, Ticket};
use crate::event::NewEvent;
use crate::pipeline::state::Pipeline;

/// All effects of one command, written in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleDecision<A> {
    pub changes: Vec<RecordChange>,
    pub events: Vec<NewEvent>,
    pub effects: Vec<OutboxEffect>,
    pub answer: A,
}

impl<A> RuleDecision<A> {
    /// A decision without changes or events.
    pub fn without_changes(answer: A) -> Self {
        Self { changes: Vec::new(), events: Vec::new(), effects: Vec::new(), answer }
    }
}

/// A decision that may refuse the command and still contain changes. For example, a command for an expired session is
/// refused, and the session's expiry is written in the same transaction.
pub type RefusableDecision<A> = RuleDecision<Result<A, CommandRefusal>>;

/// Writes one complete record. There are no partial updates, so each record type needs only one function to load it and
/// one to write it.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordChange {
    Put(DomainRecord),
}

#[derive(Debug, Clone, PartialEq)]
pub enum DomainRecord {
    Pipeline(Box<Pipeline>),
    Environment(Box<Environment>),
    Session(Box<Session>),
    Ticket(Box<Ticket>),
    EnvironmentDeployment(Box<EnvironmentDeployment>),
    StagesDeployment(Box<StagesDeployment>),
    Run(Box<RunChange>),
    Approval(Box<Approval>),
    Stage(Box<Stage>),
    StageEnd(Box<StageEnd>),
    Analysis(Box<Analysis>),
    FixPullRequest(Box<AnalysisPullRequest>),
}

/// A side effect outside the database. It stays in the outbox until a worker has completed it.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxEffect {
    /// Selects the worker that handles the effect.
    pub kind: String,
    pub payload: serde_json::Value,
}

/// Why a command was refused. A refusal is an expected result, not an internal error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    #[error("the record has changed since you read it: it is now at version {current}")]
    PreconditionFailed { current: i64 },
    #[error("{0}")]
    AlreadyExists(String),
    #[error("{0}")]
    InvalidState(String),
    #[error("{0}")]
    Forbidden(String),
    /// The approval has already been approved, rejected, expired or lapsed.
    #[error("{0}")]
    ApprovalEnded(String),
    #[error("{0}")]
    AlreadyVoted(String),
    /// The approval rule excludes this person.
    #[error("{0}")]
    NotEligible(String),
    /// No earlier deployment can be the target of the rollback; the text says why.
    #[error("{0}")]
    NothingToRollBackTo(String),
    /// The message does not repeat the requested name, because a URL path may contain anything.
    #[error("there is no such stage in this deployment")]
    NoSuchStage,
    /// The caller is an agent, and one of its limits does not allow this.
    #[error(transparent)]
    AgentLimit(AgentLimitReached),
    #[error("the environment is held by {}", .0.session.holder_label())]
    EnvironmentLocked(Box<LockConflict>),
    #[error("the session is not active any more: it is {}", .0.session.status().as_str())]
    SessionNotActive(Box<InactiveSession>),
    #[error("the session is held by {}", .0.name)]
    NotSessionHolder(LockHolder),
    /// The environment's holder is not the one that the caller expected; `current` is `None` if there is no holder.
    #[error("{}", match current {
        Some(fence) => format!("the holder of the environment has changed since you read it: it is now at fence {fence}"),
        None => "the holder of the environment has changed since you read it: it is not held now".to_owned(),
    })]
    FenceMoved { current: Option<Fence> },
}
