//! What a rule answers: a decision, or a refusal. Neither has happened yet when the rule returns.

use crate::analysis::{Analysis, FixPullRequest};
use crate::approval::Approval;
use crate::deployment::run::RunChange;
use crate::deployment::stages::stage::{Stage, StageEnd};
use crate::deployment::{EnvironmentDeployment, StagesDeployment};
use crate::environment::fence::Fence;
use crate::environment::{Environment, Holder, Locked, NotActive, Session, Ticket};
use crate::event::NewEvent;
use crate::pipeline::state::Pipeline;

/// Everything one command does, to be written in one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<A> {
    pub changes: Vec<Change>,
    pub events: Vec<NewEvent>,
    pub effects: Vec<Effect>,
    pub answer: A,
}

impl<A> Decision<A> {
    /// Nothing changes, nothing is recorded: the state is already as asked.
    pub fn calm(answer: A) -> Self {
        Self { changes: Vec::new(), events: Vec::new(), effects: Vec::new(), answer }
    }
}

/// A decision that may be a "no" and still changes something: whoever asks about a session that has run out learns
/// who holds the environment now, and the expiry that made it so is written with the refusal.
pub type Ruling<A> = Decision<Result<A, Refusal>>;

/// Changes are whole records: one load and one write per kind of record, not one per operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Put(Record),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Record {
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
    FixPullRequest(Box<FixPullRequest>),
}

/// Something to do outside the database, kept in the outbox until it is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Which worker takes it.
    pub kind: String,
    pub payload: serde_json::Value,
}

/// "No", with the reason: an answer, not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the record has changed since you read it: it is now at version {current}")]
    PreconditionFailed { current: i64 },
    #[error("{0}")]
    AlreadyExists(String),
    #[error("{0}")]
    InvalidState(String),
    #[error("{0}")]
    Forbidden(String),
    /// An approval that waits for nobody any more.
    #[error("{0}")]
    ApprovalEnded(String),
    #[error("{0}")]
    AlreadyVoted(String),
    /// The rule does not count this person.
    #[error("{0}")]
    NotEligible(String),
    /// In words: why no earlier deployment is good enough.
    #[error("{0}")]
    NothingToRollBackTo(String),
    /// What was asked for is not repeated: a path may hold anything.
    #[error("there is no such stage in this deployment")]
    NoSuchStage,
    #[error("the environment is held by {}", .0.session.holder.name)]
    EnvironmentLocked(Box<Locked>),
    #[error("the session is not active any more: it is {}", .0.session.status().as_str())]
    SessionNotActive(Box<NotActive>),
    #[error("the session is held by {}", .0.name)]
    NotSessionHolder(Holder),
    /// `None`: nobody holds the environment.
    #[error("{}", match current {
        Some(fence) => format!("the environment has changed hands since you looked: it is now at fence {fence}"),
        None => "the environment has changed hands since you looked: nobody holds it now".to_owned(),
    })]
    FenceMoved { current: Option<Fence> },
}
