//! The lock: all records that one decision about an environment reads and may change. The environment is the aggregate
//! root; its version increases with every change to any of them.

use super::order::sort_tickets;
use super::state::{
    Environment, EnvironmentCondition, EnvironmentStatus, PendingTakeover, Session, Ticket, TicketState,
};
use crate::decision::{DomainRecord, RecordChange, RuleDecision};
use crate::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use crate::id::{DeploymentId, TicketId};
use crate::name::CommitId;

#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    pub environment: Environment,
    /// The active session.
    pub session: Option<Session>,
    /// Waiting tickets, in the order in which they will be granted.
    pub tickets: Vec<Ticket>,
    /// Unfinished deployments, oldest first.
    pub deployments: Vec<EnvironmentDeployment>,
    /// The pipeline is stopped, so no deployment starts.
    pub is_paused: bool,
    /// The head of the tracked branch, which a reset deploys; `None` if unknown.
    pub tracked: Option<CommitId>,
}

impl Lock {
    pub fn state(&self) -> EnvironmentStatus {
        match self.environment.condition {
            EnvironmentCondition::Unknown => EnvironmentStatus::Unknown,
            _ if self.is_contested() => EnvironmentStatus::Contested,
            _ if self.is_resetting() => EnvironmentStatus::Resetting,
            EnvironmentCondition::Dirty => EnvironmentStatus::Dirty,
            EnvironmentCondition::Clean => EnvironmentStatus::Clean,
        }
    }

    /// Deployments of ended sessions that may still be running. Resets do not count.
    pub fn leftover_deployments(&self) -> impl Iterator<Item = &EnvironmentDeployment> {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments.iter().filter(move |deployment| {
            deployment.attempt().is_some()
                && matches!(deployment.target.purpose, DeploymentPurpose::Session(id) if Some(id) != active)
        })
    }

    pub fn is_contested(&self) -> bool {
        self.leftover_deployments().next().is_some()
    }

    pub fn is_resetting(&self) -> bool {
        self.reset().is_some()
    }

    /// The reset that is queued, running or being cancelled.
    pub fn reset(&self) -> Option<&EnvironmentDeployment> {
        self.resets().next()
    }

    /// All unfinished resets. Usually there is at most one; a second may wait while the first is being cancelled.
    pub(crate) fn resets(&self) -> impl Iterator<Item = &EnvironmentDeployment> {
        self.deployments.iter().filter(|deployment| deployment.target.purpose == DeploymentPurpose::Reset)
    }

    /// Whether a reset is queued or running that is not being cancelled.
    pub(crate) fn is_being_reset(&self) -> bool {
        self.resets().any(|reset| !matches!(reset.status, DeploymentState::Cancelling(_)))
    }

    pub fn deployment(&self, id: DeploymentId) -> Option<&EnvironmentDeployment> {
        self.deployments.iter().find(|deployment| deployment.id == id)
    }

    /// The ticket's position in the queue, from 1; `None` if the ticket is not waiting.
    pub fn position(&self, id: TicketId) -> Option<usize> {
        self.tickets.iter().position(|ticket| ticket.id == id).map(|index| index + 1)
    }

    /// The takeover that targets the active session, and its ticket.
    pub fn pending_takeover(&self) -> Option<(&Ticket, &PendingTakeover)> {
        let active = self.session.as_ref()?.id;
        let pending = |ticket: &'_ Ticket| ticket.takeover.as_ref().is_some_and(|plan| plan.target == active);
        let ticket = self.tickets.iter().find(|ticket| pending(ticket))?;
        Some((ticket, ticket.takeover.as_ref()?))
    }

    /// Whether the active session has an unfinished deployment; if so, the idle timer does not run.
    pub fn is_busy(&self) -> bool {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments
            .iter()
            .any(|deployment| matches!(deployment.target.purpose, DeploymentPurpose::Session(id) if Some(id) == active))
    }

    /// Whether a deployment of the active session is running.
    pub fn is_deploying(&self) -> bool {
        let active = self.session.as_ref().map(|session| session.id);
        self.deployments.iter().any(|deployment| {
            deployment.attempt().is_some()
                && matches!(deployment.target.purpose, DeploymentPurpose::Session(id) if Some(id) == active)
        })
    }
}

impl Lock {
    /// Applies a decision's changes to a copy of the lock, which saves reading it from the store again.
    #[must_use]
    pub fn after<A>(&self, decision: &RuleDecision<A>) -> Lock {
        let mut lock = self.clone();
        for RecordChange::Put(record) in &decision.changes {
            match record {
                DomainRecord::Environment(it) => lock.environment = it.as_ref().clone(),
                DomainRecord::Session(it) if it.end.is_none() => lock.session = Some(it.as_ref().clone()),
                DomainRecord::Session(it) => drop(lock.session.take_if(|active| active.id == it.id)),
                DomainRecord::Ticket(it) => lock.apply_ticket(it),
                DomainRecord::EnvironmentDeployment(it) => {
                    lock.deployments.retain(|deployment| deployment.id != it.id);
                    if !it.status.is_final() {
                        lock.deployments.push(it.as_ref().clone());
                    }
                }
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
        lock.deployments.sort_by_key(|deployment| deployment.number);
        lock
    }

    /// A new ticket takes its place in the queue; the others keep theirs.
    fn apply_ticket(&mut self, ticket: &Ticket) {
        let is_waiting = ticket.status == TicketState::Waiting;
        match self.tickets.iter().position(|it| it.id == ticket.id) {
            Some(index) if is_waiting => self.tickets[index] = ticket.clone(),
            Some(index) => drop(self.tickets.remove(index)),
            None if is_waiting => {
                self.tickets.push(ticket.clone());
                sort_tickets(&mut self.tickets, &self.environment.configuration.queue, ticket.created_at);
            }
            None => {}
        }
    }
}
