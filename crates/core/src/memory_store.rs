//! An in-memory model of the store, for tests and simulations. Every real store must behave the same.

use std::collections::BTreeMap;

use crate::decision::{DomainRecord, RecordChange, RuleDecision};
use crate::deployment::EnvironmentDeployment;
use crate::environment::{Environment, Lock, Session, Ticket, TicketState};
use crate::event::NewEvent;
use crate::id::{DeploymentId, EnvironmentId, PipelineId, SessionId, TicketId, TokenId, UserId};
use crate::name::CommitId;

/// Everything written so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryStore {
    pub environments: BTreeMap<EnvironmentId, Environment>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub tickets: BTreeMap<TicketId, Ticket>,
    pub deployments: BTreeMap<DeploymentId, EnvironmentDeployment>,
    pub events: Vec<NewEvent>,
    /// Pipelines that are stopped.
    pub paused: Vec<PipelineId>,
    /// The commit that resets deploy.
    pub tracked: Option<CommitId>,
    /// Users who may no longer claim; `revoked_tokens` are the revoked tokens.
    pub revoked: Vec<UserId>,
    pub revoked_tokens: Vec<TokenId>,
}

/// The lock was changed after it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionConflict;

impl MemoryStore {
    pub fn load(&self, id: EnvironmentId) -> Option<Lock> {
        let environment = self.environments.get(&id)?.clone();
        let session =
            self.sessions.values().find(|session| session.environment == id && session.end.is_none());
        let waiting =
            self.tickets.values().filter(|it| it.environment == id && it.status == TicketState::Waiting);
        let is_entitled = |ticket: &Ticket| {
            !self.revoked.contains(&ticket.holder.id)
                && !ticket.token.is_some_and(|token| self.revoked_tokens.contains(&token))
        };
        let mut tickets: Vec<_> =
            waiting.map(|ticket| Ticket { is_entitled: is_entitled(ticket), ..ticket.clone() }).collect();
        tickets.sort_by_key(|ticket| (ticket.takeover.is_none(), ticket.number));
        let unfinished = self.deployments.values();
        let unfinished = unfinished.filter(|it| it.target.environment == id && !it.status.is_final());
        let mut deployments: Vec<_> = unfinished.cloned().collect();
        deployments.sort_by_key(|deployment| deployment.number);
        Some(Lock {
            is_paused: self.paused.contains(&environment.pipeline),
            session: session.cloned(),
            tickets,
            deployments,
            tracked: self.tracked.clone(),
            environment,
        })
    }

    /// Writes the lease of a session after a heartbeat.
    pub fn renew_lease(&mut self, renewed: &Session) {
        if let Some(session) = self.sessions.get_mut(&renewed.id).filter(|it| it.end.is_none()) {
            session.lease_expires_at = renewed.lease_expires_at;
        }
    }

    /// Writes a decision, unless the environment was changed after it was loaded.
    pub fn apply<A>(&mut self, decision: RuleDecision<A>) -> Result<A, VersionConflict> {
        for change in &decision.changes {
            if let RecordChange::Put(DomainRecord::Environment(next)) = change
                && let Some(present) = self.environments.get(&next.id)
                && present.version + 1 != next.version
            {
                return Err(VersionConflict);
            }
        }
        for RecordChange::Put(record) in decision.changes {
            match record {
                DomainRecord::Environment(it) => drop(self.environments.insert(it.id, *it)),
                DomainRecord::Session(it) => drop(self.sessions.insert(it.id, *it)),
                DomainRecord::Ticket(it) => drop(self.tickets.insert(it.id, *it)),
                DomainRecord::EnvironmentDeployment(it) => drop(self.deployments.insert(it.id, *it)),
                DomainRecord::Pipeline(_)
                | DomainRecord::StagesDeployment(_)
                | DomainRecord::Run(_)
                | DomainRecord::Approval(_)
                | DomainRecord::Stage(_)
                | DomainRecord::StageEnd(_)
                | DomainRecord::Analysis(_)
                | DomainRecord::FixPullRequest(_) => {}
            }
        }
        self.events.extend(decision.events);
        Ok(decision.answer)
    }
}
